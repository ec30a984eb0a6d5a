#include "optimizer/unsharded/unsharded_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "optimizer/compute/convert.h"
#include "testing/known_spectra.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::testing::ElementsAre;
using testing::IsOk;
using testing::RandomValues;
using testing::StatusIs;

using Bytes = std::vector<std::byte>;

Bytes As(DataType type, const std::vector<float>& values) {
  Bytes bytes(values.size() * ByteWidth(type));
  FromFloat(type, values, bytes.data());
  return bytes;
}

std::vector<float> RandomFloats(const ParameterSpec& spec, uint64_t seed) {
  const std::vector<double> values = RandomValues(ElementCount(spec), seed);
  return {values.begin(), values.end()};
}

ParameterSpec Vector(std::string name, int64_t count) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = {count};
  return spec;
}

ParameterSpec Matrix(std::string name, std::vector<int64_t> shape) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = std::move(shape);
  spec.rule = Rule::kMuon;
  return spec;
}

// Keeps the elements that an input borrows.
class Input {
 public:
  // A parameter with these gradients, one rank each; none for an absent one.
  Input& Add(DataType dtype, const std::vector<std::vector<float>>& ranks) {
    LocalGradients local;
    local.dtype = dtype;
    local.groups.emplace_back();
    for (const std::vector<float>& values : ranks) {
      kept_.push_back(As(dtype, values));
      local.groups[0].push_back({kept_.back().data()});
    }
    if (ranks.empty()) local.groups.clear();
    step.gradients.push_back(std::move(local));
    return *this;
  }

  UnshardedStepInput step;

 private:
  std::deque<Bytes> kept_;
};

UnshardedOptimizer Make(const std::vector<ParameterSpec>& specs,
                        const std::vector<std::vector<float>>& values,
                        const OptimizerOptions& options = {}) {
  std::vector<Bytes> parameters;
  for (size_t i = 0; i < specs.size(); ++i) {
    parameters.push_back(As(specs[i].dtype, values[i]));
  }
  auto optimizer = UnshardedOptimizer::Create(
      specs, options, std::vector<int64_t>(specs.size(), 1),
      std::move(parameters));
  EXPECT_THAT(optimizer, IsOk());
  return *std::move(optimizer);
}

std::vector<float> ValueOf(const UnshardedOptimizer& optimizer, size_t index) {
  const std::span<const std::byte> bytes = optimizer.parameter(index);
  std::vector<float> values(bytes.size() / sizeof(float));
  ToFloat(DataType::kF32, bytes.data(), values);
  return values;
}

// Divides a matrix by its norm and subtracts it.
OptimizerOptions PlainOptions() {
  OptimizerOptions options;
  options.muon.learning_rate = 1;
  options.muon.weight_decay = 0;
  options.muon.momentum = 0;
  options.muon.coefficient_set = NewtonSchulzSet::kCustom;
  options.muon.custom_coefficients = {{1, 0, 0}};
  options.muon.newton_schulz_steps = 1;
  options.adamw.learning_rate = 1;
  options.adamw.weight_decay = 0;
  options.adamw.beta1 = 0;
  options.adamw.beta2 = 0;
  return options;
}

TEST(UnshardedOptimizerTest, ASmallStepIsThatOfPaperAndPencil) {
  OptimizerOptions options = PlainOptions();
  options.adamw.epsilon = 1;
  UnshardedOptimizer optimizer =
      Make({Matrix("m", {1, 2}), Vector("v", 2)}, {{1, 1}, {2, 2}}, options);
  Input input;
  input.Add(DataType::kF32, {{3, 4}}).Add(DataType::kF32, {{0, 3}});
  const auto outcome = optimizer.Step(input.step);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_TRUE(outcome->updated);
  EXPECT_EQ(outcome->gradient_norm, std::sqrt(9.0 + 16 + 9));
  EXPECT_EQ(outcome->clip_factor, 1);
  EXPECT_EQ(outcome->non_finite_count, 0);
  EXPECT_THAT(ValueOf(optimizer, 0), ElementsAre(1 - 0.6f, 1 - 0.8f));
  EXPECT_THAT(ValueOf(optimizer, 1), ElementsAre(2, 2 - 0.75f));
  EXPECT_THAT(optimizer.first_moment(0), ElementsAre(3, 4));
  EXPECT_TRUE(optimizer.second_moment(0).empty());
  EXPECT_THAT(optimizer.second_moment(1), ElementsAre(0, 9));
}

TEST(UnshardedOptimizerTest, UnitsOfAParameterAreParametersOfTheirOwn) {
  // The same elements as a bank, as blocks of rows and as two matrices.
  const ParameterSpec bank = Matrix("bank", {2, 9, 15});
  ParameterSpec stacked = Matrix("stacked", {18, 15});
  stacked.blocks = {.dimension = 0, .sizes = {9, 9}};
  const std::vector<float> values = RandomFloats(bank, 1);
  const std::vector<float> gradient = RandomFloats(bank, 2);
  const auto half = [](const std::vector<float>& whole, size_t index) {
    const auto start = whole.begin() + static_cast<int64_t>(135 * index);
    return std::vector<float>(start, start + 135);
  };
  UnshardedOptimizer whole = Make({bank, stacked}, {values, values});
  UnshardedOptimizer halves = Make({Matrix("a", {9, 15}), Matrix("b", {9, 15})},
                                   {half(values, 0), half(values, 1)});
  Input whole_input;
  whole_input.Add(DataType::kF32, {gradient}).Add(DataType::kF32, {gradient});
  Input halves_input;
  halves_input.Add(DataType::kF32, {half(gradient, 0)})
      .Add(DataType::kF32, {half(gradient, 1)});
  const auto whole_outcome = whole.Step(whole_input.step);
  const auto halves_outcome = halves.Step(halves_input.step);
  ASSERT_THAT(whole_outcome, IsOk());
  ASSERT_THAT(halves_outcome, IsOk());
  for (size_t i = 0; i < 2; ++i) {
    for (size_t k = 0; k < 2; ++k) {
      EXPECT_EQ(half(ValueOf(whole, i), k), ValueOf(halves, k));
    }
  }
  EXPECT_DOUBLE_EQ(whole_outcome->gradient_norm,
                   std::sqrt(2.0) * halves_outcome->gradient_norm);
}

TEST(UnshardedOptimizerTest, NarrowParametersAreRoundedOnceFromF32) {
  for (const DataType type : {DataType::kBF16, DataType::kF16}) {
    for (ParameterSpec wide : {Matrix("m", {6, 8}), Vector("v", 48)}) {
      ParameterSpec narrow = wide;
      narrow.dtype = narrow.gradient_dtype = type;
      std::vector<float> values = RandomFloats(wide, 3);
      ToFloat(type, As(type, values).data(), values);
      std::vector<float> gradient = RandomFloats(wide, 4);
      ToFloat(type, As(type, gradient).data(), gradient);
      UnshardedOptimizer expected = Make({wide}, {values});
      UnshardedOptimizer optimizer = Make({narrow}, {values});
      Input expected_input;
      expected_input.Add(DataType::kF32, {gradient});
      Input input;
      input.Add(type, {gradient});
      ASSERT_THAT(expected.Step(expected_input.step), IsOk());
      ASSERT_THAT(optimizer.Step(input.step), IsOk());
      const Bytes rounded = As(type, ValueOf(expected, 0));
      EXPECT_EQ(
          Bytes(optimizer.parameter(0).begin(), optimizer.parameter(0).end()),
          rounded);
    }
  }
}

TEST(UnshardedOptimizerTest, ANonFiniteGradientSkipsTheStepAndLeavesEveryBit) {
  const std::vector<ParameterSpec> specs = {Matrix("m", {3, 4}),
                                            Vector("v", 6)};
  const std::vector<std::vector<float>> values = {RandomFloats(specs[0], 5),
                                                  RandomFloats(specs[1], 6)};
  UnshardedOptimizer skipped = Make(specs, values);
  UnshardedOptimizer never = Make(specs, values);
  const auto step = [&](UnshardedOptimizer& optimizer, float planted) {
    Input input;
    std::vector<float> gradient = RandomFloats(specs[1], 8);
    gradient[2] = planted;
    input.Add(DataType::kF32, {RandomFloats(specs[0], 7)})
        .Add(DataType::kF32, {gradient, gradient});
    return *optimizer.Step(input.step);
  };
  EXPECT_TRUE(step(skipped, 1).updated);
  for (const float planted : {std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::max()}) {
    const StepOutcome outcome = step(skipped, planted);
    EXPECT_FALSE(outcome.updated);
    EXPECT_EQ(outcome.non_finite_count, 1);
  }
  EXPECT_TRUE(step(skipped, 2).updated);
  EXPECT_TRUE(step(never, 1).updated);
  EXPECT_TRUE(step(never, 2).updated);
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(ValueOf(skipped, i), ValueOf(never, i));
    EXPECT_TRUE(
        std::ranges::equal(skipped.first_moment(i), never.first_moment(i)));
    EXPECT_TRUE(
        std::ranges::equal(skipped.second_moment(i), never.second_moment(i)));
  }
}

TEST(UnshardedOptimizerTest, AnAbsentGradientIsAnErrorOrZerosOrSkips) {
  OptimizerOptions options;
  options.adamw.learning_rate = 0.5;
  options.adamw.weight_decay = 1;
  ParameterSpec wanted = Vector("wanted", 1);
  ParameterSpec zeros = Vector("zeros", 1);
  zeros.absent_gradient = AbsentGradient::kZeros;
  ParameterSpec skip = Vector("skip", 1);
  skip.absent_gradient = AbsentGradient::kSkip;
  UnshardedOptimizer optimizer =
      Make({wanted, zeros, skip}, {{4}, {4}, {4}}, options);
  Input absent;
  absent.Add(DataType::kF32, {}).Add(DataType::kF32, {});
  absent.Add(DataType::kF32, {{1}});
  EXPECT_THAT(optimizer.Step(absent.step),
              StatusIs(absl::StatusCode::kFailedPrecondition, "\"wanted\""));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_THAT(ValueOf(optimizer, i), ElementsAre(4)) << i;
  }
  Input present;
  present.Add(DataType::kF32, {{0}}).Add(DataType::kF32, {});
  present.Add(DataType::kF32, {});
  ASSERT_THAT(optimizer.Step(present.step), IsOk());
  EXPECT_THAT(ValueOf(optimizer, 1), ElementsAre(2));
  EXPECT_THAT(ValueOf(optimizer, 2), ElementsAre(4));
  // What was skipped has not aged: its first step is a first step.
  UnshardedOptimizer fresh = Make({skip}, {{4}}, options);
  Input all;
  for (int i = 0; i < 3; ++i) all.Add(DataType::kF32, {{0.3f}});
  Input one;
  one.Add(DataType::kF32, {{0.3f}});
  ASSERT_THAT(optimizer.Step(all.step), IsOk());
  ASSERT_THAT(fresh.Step(one.step), IsOk());
  EXPECT_EQ(ValueOf(optimizer, 2), ValueOf(fresh, 0));
}

TEST(UnshardedOptimizerTest, ClippingMultipliesGradientsBeforeTheMoments) {
  UnshardedOptimizer optimizer =
      Make({Vector("v", 2)}, {{0, 0}}, PlainOptions());
  Input input;
  input.Add(DataType::kF32, {{3, 4}});
  input.step.options.clip_norm = 1;
  const auto outcome = optimizer.Step(input.step);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->gradient_norm, 5);
  EXPECT_EQ(outcome->clip_factor, 1 / (5 + 1e-6));
  const float factor = static_cast<float>(outcome->clip_factor);
  EXPECT_THAT(optimizer.first_moment(0), ElementsAre(factor * 3, factor * 4));
}

TEST(UnshardedOptimizerTest, LearningRatesOfAStepReplaceThoseOfTheOptions) {
  const std::vector<ParameterSpec> specs = {Matrix("m", {1, 1}),
                                            Vector("v", 1)};
  UnshardedOptimizer optimizer = Make(specs, {{0}, {0}}, PlainOptions());
  Input input;
  input.Add(DataType::kF32, {{1}}).Add(DataType::kF32, {{1}});
  input.step.options.muon_learning_rate = 0.25;
  input.step.options.adamw_learning_rate = 0.5;
  ASSERT_THAT(optimizer.Step(input.step), IsOk());
  EXPECT_THAT(ValueOf(optimizer, 0), ElementsAre(-0.25f));
  EXPECT_THAT(ValueOf(optimizer, 1), ElementsAre(-0.5f));
  input.step.options.muon_learning_rate =
      std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(optimizer.Step(input.step),
              StatusIs(absl::StatusCode::kInvalidArgument, "learning_rate"));
  EXPECT_THAT(ValueOf(optimizer, 0), ElementsAre(-0.25f));
}

TEST(UnshardedOptimizerTest, ALossScaleOfAPowerOfTwoChangesNoBit) {
  const std::vector<ParameterSpec> specs = {Matrix("m", {6, 8}),
                                            Vector("v", 40)};
  const std::vector<std::vector<float>> values = {RandomFloats(specs[0], 1),
                                                  RandomFloats(specs[1], 2)};
  UnshardedOptimizer plain = Make(specs, values);
  UnshardedOptimizer scaled = Make(specs, values);
  for (const int exponent : {-30, 16, 120}) {
    Input plain_input;
    Input scaled_input;
    for (size_t i = 0; i < specs.size(); ++i) {
      std::vector<float> gradient =
          RandomFloats(specs[i], 3 + static_cast<uint64_t>(exponent + 30));
      plain_input.Add(DataType::kF32, {gradient});
      for (float& value : gradient) value = std::ldexp(value, exponent);
      scaled_input.Add(DataType::kF32, {gradient});
    }
    plain_input.step.options.clip_norm = 0.5;
    scaled_input.step.options.clip_norm = 0.5;
    scaled_input.step.options.loss_scale = std::ldexp(1.0, exponent);
    const auto plain_outcome = plain.Step(plain_input.step);
    const auto scaled_outcome = scaled.Step(scaled_input.step);
    ASSERT_THAT(plain_outcome, IsOk());
    ASSERT_THAT(scaled_outcome, IsOk());
    EXPECT_EQ(plain_outcome->gradient_norm, scaled_outcome->gradient_norm);
    EXPECT_EQ(plain_outcome->clip_factor, scaled_outcome->clip_factor);
    for (size_t i = 0; i < specs.size(); ++i) {
      EXPECT_EQ(ValueOf(plain, i), ValueOf(scaled, i));
      EXPECT_TRUE(
          std::ranges::equal(plain.first_moment(i), scaled.first_moment(i)));
    }
  }
}

TEST(UnshardedOptimizerTest, GradientsAreDividedBeforeTheClip) {
  UnshardedOptimizer optimizer =
      Make({Vector("v", 2)}, {{0, 0}}, PlainOptions());
  Input input;
  input.Add(DataType::kF32, {{300, 400}});
  input.step.options.loss_scale = 100;
  input.step.options.clip_norm = 1;
  const auto outcome = optimizer.Step(input.step);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->gradient_norm, 5);
  EXPECT_EQ(outcome->clip_factor, 1 / (5 + 1e-6));
  // One factor, made in fp64 and rounded once.
  const float factor = static_cast<float>(outcome->clip_factor / 100);
  EXPECT_THAT(optimizer.first_moment(0),
              ElementsAre(factor * 300, factor * 400));
}

TEST(UnshardedOptimizerTest, AGoodGradientThatDividedExceedsF32IsAnError) {
  UnshardedOptimizer optimizer = Make({Vector("v", 1)}, {{1}});
  Input input;
  input.Add(DataType::kF32, {{1e30f}});
  input.step.options.loss_scale = 0x1p-30;
  EXPECT_THAT(optimizer.Step(input.step),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "want a loss scale with which f32 holds the gradients"));
  EXPECT_EQ(optimizer.step_count(0), 0);
  EXPECT_THAT(ValueOf(optimizer, 0), ElementsAre(1));
  // A clip keeps it within f32.
  input.step.options.clip_norm = 1;
  ASSERT_THAT(optimizer.Step(input.step), IsOk());
  EXPECT_NEAR(optimizer.first_moment(0)[0], 0.1, 1e-7);
}

TEST(UnshardedOptimizerTest, ASchedulesFactorActsOnItsParametersAlone) {
  ParameterSpec matrix = Matrix("m", {1, 1});
  ParameterSpec vector = Vector("v", 1);
  ParameterSpec other = Vector("w", 1);
  matrix.schedule = vector.schedule = "warm";
  vector.learning_rate_scale = 0.5;
  UnshardedOptimizer optimizer =
      Make({matrix, vector, other}, {{0}, {0}, {0}}, PlainOptions());
  Input input;
  for (int i = 0; i < 3; ++i) input.Add(DataType::kF32, {{1}});
  input.step.options.schedule_factors["warm"] = 0.25;
  ASSERT_THAT(optimizer.Step(input.step), IsOk());
  EXPECT_THAT(ValueOf(optimizer, 0), ElementsAre(-0.25f));
  EXPECT_THAT(ValueOf(optimizer, 1), ElementsAre(-0.125f));
  EXPECT_THAT(ValueOf(optimizer, 2), ElementsAre(-1));
  // It may change in every step.
  input.step.options.schedule_factors["warm"] = 0;
  ASSERT_THAT(optimizer.Step(input.step), IsOk());
  EXPECT_THAT(ValueOf(optimizer, 0), ElementsAre(-0.25f));
  input.step.options.schedule_factors["cold"] = 1;
  EXPECT_THAT(optimizer.Step(input.step),
              StatusIs(absl::StatusCode::kInvalidArgument, "\"cold\""));
}

TEST(UnshardedOptimizerTest, MastersKeepWhatANarrowParameterCannot) {
  for (const DataType type : {DataType::kBF16, DataType::kF16}) {
    for (ParameterSpec wide : {Matrix("m", {6, 8}), Vector("v", 48)}) {
      ParameterSpec narrow = wide;
      narrow.dtype = type;
      OptimizerOptions options;
      options.muon.learning_rate = options.adamw.learning_rate = 1e-5;
      OptimizerOptions without = options;
      without.master_weights = false;
      std::vector<float> values = RandomFloats(wide, 3);
      ToFloat(type, As(type, values).data(), values);
      UnshardedOptimizer f32 = Make({wide}, {values}, options);
      UnshardedOptimizer mastered = Make({narrow}, {values}, options);
      UnshardedOptimizer plain = Make({narrow}, {values}, without);
      EXPECT_TRUE(mastered.master(0).empty());
      for (uint64_t step = 0; step < 20; ++step) {
        Input input;
        input.Add(DataType::kF32, {RandomFloats(wide, 50 + step)});
        for (UnshardedOptimizer* optimizer : {&f32, &mastered, &plain}) {
          ASSERT_THAT(optimizer->Step(input.step), IsOk());
        }
      }
      const std::vector<float> want = ValueOf(f32, 0);
      EXPECT_TRUE(std::ranges::equal(mastered.master(0), want));
      EXPECT_TRUE(std::ranges::equal(mastered.parameter(0), As(type, want)));
      EXPECT_TRUE(plain.master(0).empty());
      EXPECT_FALSE(std::ranges::equal(plain.parameter(0), As(type, want)));
      EXPECT_TRUE(f32.master(0).empty());
      EXPECT_EQ(mastered.step_count(0), 20);
    }
  }
}

TEST(UnshardedOptimizerTest, ASkippedStepLeavesTheMaster) {
  ParameterSpec spec = Vector("v", 4);
  spec.dtype = DataType::kBF16;
  spec.absent_gradient = AbsentGradient::kSkip;
  UnshardedOptimizer optimizer = Make({spec}, {{1, 2, 3, 4}});
  Input good;
  good.Add(DataType::kF32, {{1, 1, 1, 1}});
  Input bad;
  bad.Add(DataType::kF32, {{1, HUGE_VALF, 1, 1}});
  Input absent;
  absent.Add(DataType::kF32, {});
  ASSERT_THAT(optimizer.Step(good.step), IsOk());
  const std::vector<float> master(optimizer.master(0).begin(),
                                  optimizer.master(0).end());
  for (const Input* input : {&bad, &absent}) {
    ASSERT_THAT(optimizer.Step(input->step), IsOk());
    EXPECT_TRUE(std::ranges::equal(optimizer.master(0), master));
    EXPECT_EQ(optimizer.step_count(0), 1);
  }
}

TEST(UnshardedOptimizerTest, WrongStepsAreRefused) {
  UnshardedOptimizer optimizer = Make({Vector("v", 1)}, {{0}});
  Input input;
  EXPECT_THAT(optimizer.Step(input.step),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "gradients of 1 parameters, got 0"));
  input.Add(DataType::kBF16, {{1}});
  EXPECT_THAT(optimizer.Step(input.step),
              StatusIs(absl::StatusCode::kInvalidArgument, "\"v\""));
  input.step.options.clip_norm = -1;
  EXPECT_THAT(optimizer.Step(input.step),
              StatusIs(absl::StatusCode::kInvalidArgument, "clip_norm"));
}

TEST(UnshardedOptimizerTest, WrongSpecsAreRefused) {
  const auto expect_invalid = [](const ParameterSpec& spec, size_t bytes,
                                 const std::string& text) {
    EXPECT_THAT(UnshardedOptimizer::Create({spec}, {}, {1}, {Bytes(bytes)}),
                StatusIs(absl::StatusCode::kInvalidArgument, text));
  };
  ParameterSpec spec = Vector("v", 2);
  expect_invalid(spec, 7, "\"v\": want 8 bytes of first values, got 7");
  spec.dtype = DataType::kF64;
  expect_invalid(spec, 16, "want dtype bf16, f16 or f32, got f64");
  spec = Vector("v", 2);
  spec.gradient_dtype = DataType::kI32;
  expect_invalid(spec, 8, "want gradient dtype bf16, f16 or f32, got i32");
  spec.gradient_dtype = DataType::kF16;
  spec.gradient_mode = GradientMode::kAccumulate;
  expect_invalid(spec, 8, "want gradient dtype f32 to accumulate, got f16");
  expect_invalid(Matrix("m", {2}), 8, "want 2 or 3 dimensions for muon, got 1");

  EXPECT_THAT(UnshardedOptimizer::Create({spec}, {}, {}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, "got 0 divisors"));
  OptimizerOptions options;
  options.muon.momentum = 1;
  EXPECT_THAT(UnshardedOptimizer::Create({}, options, {}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, "momentum"));
}

}  // namespace
}  // namespace muonshard
