#include "optimizer/unsharded/unsharded_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "optimizer/compute/convert.h"
#include "testing/status_matchers.h"
#include "testing/unsharded_case.h"

namespace muonshard {
namespace {

using testing::As;
using testing::Bytes;
using ::testing::ElementsAre;
using testing::Input;
using testing::IsOk;
using testing::Make;
using testing::Matrix;
using testing::PlainOptions;
using testing::RandomFloats;
using testing::StatusIs;
using testing::ValueOf;
using testing::Vector;

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
