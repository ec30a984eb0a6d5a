#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "optimizer/compute/convert.h"
#include "optimizer/unsharded/unsharded_optimizer.h"
#include "testing/status_matchers.h"
#include "testing/unsharded_case.h"

namespace muonshard {
namespace {

using testing::As;
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

TEST(UnshardedScalingTest, ClippingMultipliesGradientsBeforeTheMoments) {
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

TEST(UnshardedScalingTest, LearningRatesOfAStepReplaceThoseOfTheOptions) {
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

TEST(UnshardedScalingTest, ALossScaleOfAPowerOfTwoChangesNoBit) {
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

TEST(UnshardedScalingTest, GradientsAreDividedBeforeTheClip) {
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

TEST(UnshardedScalingTest, AGoodGradientThatDividedExceedsF32IsAnError) {
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

TEST(UnshardedScalingTest, ASchedulesFactorActsOnItsParametersAlone) {
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

TEST(UnshardedScalingTest, ARateThatF32DoesNotHoldIsRefusedBeforeAnyUpdate) {
  ParameterSpec vector = Vector("v", 1);
  ParameterSpec fast = Vector("w", 1);
  fast.schedule = "warm";
  fast.learning_rate_scale = 1e30;
  UnshardedOptimizer optimizer =
      Make({vector, fast}, {{1}, {1}}, PlainOptions());
  Input input;
  for (int i = 0; i < 2; ++i) input.Add(DataType::kF32, {{1}});
  // Each is a number that f32 holds.
  input.step.options.schedule_factors["warm"] = 1e30;
  EXPECT_THAT(optimizer.Step(input.step),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "parameter \"w\": want a learning rate of at most"));
  EXPECT_THAT(ValueOf(optimizer, 0), ElementsAre(1));
  EXPECT_EQ(optimizer.step_count(0), 0);
}

TEST(UnshardedScalingTest, MastersKeepWhatANarrowParameterCannot) {
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

TEST(UnshardedScalingTest, ASkippedStepLeavesTheMaster) {
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

}  // namespace
}  // namespace muonshard
