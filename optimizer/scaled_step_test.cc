// Dynamic loss scaling, end to end: what an overflow leaves alone, what a scale
// changes (nothing), and who decides.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/rank_harness.h"
#include "testing/scaled_run.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::AfterStep;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::Overflow;
using ::muonshard::testing::RunScaled;
using ::muonshard::testing::RunScaledUnsharded;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::ScaledCase;
using ::muonshard::testing::ScaledRun;
using ::muonshard::testing::ScaledStep;
using ::testing::Each;

ParameterSpec Spec(const std::string& name, Rule rule,
                   std::vector<int64_t> shape, DataType dtype,
                   DataType gradient_dtype) {
  ParameterSpec spec;
  spec.name = name;
  spec.rule = rule;
  spec.shape = std::move(shape);
  spec.dtype = dtype;
  spec.gradient_dtype = gradient_dtype;
  return spec;
}

// Matrices and vectors of f16, one of bf16, and one of f16 whose gradients are
// accumulated in f32: a bucket each, over four ranks.
ScaledCase FourBuckets() {
  constexpr DataType kF16 = DataType::kF16;
  ScaledCase scaled;
  scaled.mesh = "data=4";
  scaled.specs = {
      Spec("matrix", Rule::kMuon, {12, 8}, kF16, kF16),
      Spec("vector", Rule::kAdamW, {700}, kF16, kF16),
      Spec("brain", Rule::kMuon, {5, 9}, DataType::kBF16, DataType::kBF16),
      Spec("wide", Rule::kAdamW, {300}, kF16, DataType::kF32)};
  scaled.specs[3].gradient_mode = GradientMode::kAccumulate;
  scaled.accumulated_dtype = kF16;
  scaled.options.plan.bucket_bytes_max = 1;
  scaled.options.muon.row_normalization = true;
  // Gradients are multiples of 2^-23 in [-1, 1): with these scales f16 holds
  // those above 2^-23 as normal numbers.
  scaled.scaler = {.init_scale = 1024, .growth_interval = 3};
  return scaled;
}

// A good step, one in which `overflow` happens, and two good ones.
std::vector<ScaledStep> StepsWith(const Overflow& overflow, double clip_norm) {
  std::vector<ScaledStep> steps(4);
  for (size_t i = 0; i < steps.size(); ++i) {
    steps[i].seed = 100 + i;
    steps[i].options.clip_norm = clip_norm;
  }
  steps[1].overflow = overflow;
  return steps;
}

struct OverflowCase {
  RuntimeCase runtime;
  bool overlap = true;
  GatherMode gather = GatherMode::kLazy;
  Hierarchy hierarchy = Hierarchy::kOff;
};

std::string OverflowCaseName(
    const ::testing::TestParamInfo<OverflowCase>& info) {
  const OverflowCase& c = info.param;
  return absl::StrCat(testing::ToString(c.runtime), "Overlap",
                      c.overlap ? "On" : "Off",
                      c.gather == GatherMode::kLazy ? "Lazy" : "Eager",
                      c.hierarchy == Hierarchy::kOn ? "Hierarchical" : "Flat");
}

class F16OverflowTest : public ::testing::TestWithParam<OverflowCase> {
 protected:
  static ScaledCase Case() {
    ScaledCase scaled = FourBuckets();
    scaled.lanes_per_host = 2;
    scaled.options.overlap = GetParam().overlap;
    scaled.options.gather = GetParam().gather;
    scaled.options.plan.hierarchy = GetParam().hierarchy;
    return scaled;
  }
};

TEST_P(F16OverflowTest, OnOneRankInOneBucketKeepsAllBitsOnEveryRank) {
  ScaledCase scaled = Case();
  for (int32_t p = 0; p < 4; ++p) {
    scaled.steps = StepsWith({.rank = 1 + p % 3, .parameter = p}, 0.5);
    const ScaledRun run = RunScaled(scaled, GetParam().runtime);
    ASSERT_THAT(run.results, Each(IsOk()));
    for (const std::vector<AfterStep>& steps : run.ranks) {
      EXPECT_TRUE(steps[0].outcome.updated);
      EXPECT_FALSE(steps[1].outcome.updated);
      EXPECT_EQ(steps[1].outcome.non_finite_count, 1);
      EXPECT_TRUE(steps[1].parameters == steps[0].parameters);
      EXPECT_TRUE(steps[1].states == steps[0].states);
      EXPECT_TRUE(steps[2].outcome.updated);
      EXPECT_FALSE(steps[2].states == steps[0].states);
    }
  }
}

TEST_P(F16OverflowTest, IsAStepThatNeverWas) {
  // A power of two times a normal number has the same digits, so the steps
  // after the bad one have the same bits with half the scale.
  ScaledCase scaled = Case();
  scaled.steps = StepsWith({.rank = 2, .parameter = 0}, 0.5);
  ScaledCase without = scaled;
  without.steps.erase(without.steps.begin() + 1);
  const ScaledRun run = RunScaled(scaled, GetParam().runtime);
  const ScaledRun never = RunScaled(without, GetParam().runtime);
  ASSERT_THAT(run.results, Each(IsOk()));
  ASSERT_THAT(never.results, Each(IsOk()));
  for (size_t r = 0; r < run.ranks.size(); ++r) {
    for (const size_t step : {size_t{2}, size_t{3}}) {
      const AfterStep& after = run.ranks[r][step];
      const AfterStep& wanted = never.ranks[r][step - 1];
      EXPECT_TRUE(after.parameters == wanted.parameters);
      EXPECT_TRUE(after.states == wanted.states);
      EXPECT_EQ(after.outcome.gradient_norm, wanted.outcome.gradient_norm);
      EXPECT_EQ(after.outcome.clip_factor, wanted.outcome.clip_factor);
    }
  }
}

TEST_P(F16OverflowTest, MovesTheScalersOfAllRanksAlike) {
  ScaledCase scaled = Case();
  scaled.steps = StepsWith({.rank = 3, .parameter = 1}, 0);
  scaled.steps.push_back({.seed = 7});
  const ScaledRun run = RunScaled(scaled, GetParam().runtime);
  ASSERT_THAT(run.results, Each(IsOk()));
  for (const std::vector<AfterStep>& steps : run.ranks) {
    EXPECT_EQ(steps[0].scaler,
              (GradScalerState{.scale = 1024, .growth_tracker = 1}));
    EXPECT_EQ(steps[1].scaler,
              (GradScalerState{.scale = 512, .growth_tracker = 0}));
    EXPECT_EQ(steps[3].scaler,
              (GradScalerState{.scale = 512, .growth_tracker = 2}));
    EXPECT_EQ(steps[4].scaler,
              (GradScalerState{.scale = 1024, .growth_tracker = 0}));
  }
}

TEST_P(F16OverflowTest, LeavesARunThatEqualsTheUnshardedOne) {
  ScaledCase scaled = Case();
  scaled.steps = StepsWith({.rank = 0, .parameter = 3}, 0.5);
  const ScaledRun run = RunScaled(scaled, GetParam().runtime);
  const auto unsharded = RunScaledUnsharded(scaled);
  ASSERT_THAT(run.results, Each(IsOk()));
  ASSERT_THAT(unsharded, IsOk());
  for (size_t r = 0; r < run.ranks.size(); ++r) {
    for (size_t step = 0; step < scaled.steps.size(); ++step) {
      const AfterStep& after = run.ranks[r][step];
      const AfterStep& wanted = (*unsharded)[r][step];
      EXPECT_TRUE(after.parameters == wanted.parameters) << "step " << step;
      EXPECT_EQ(after.scaler, wanted.scaler);
      EXPECT_EQ(after.outcome.gradient_norm, wanted.outcome.gradient_norm);
    }
  }
}

std::vector<OverflowCase> OverflowCases() {
  std::vector<OverflowCase> cases;
  for (const RuntimeCase& runtime : testing::BothRuntimes(2)) {
    for (const bool overlap : {true, false}) {
      for (const GatherMode gather : {GatherMode::kLazy, GatherMode::kEager}) {
        for (const Hierarchy hierarchy : {Hierarchy::kOff, Hierarchy::kOn}) {
          cases.push_back({runtime, overlap, gather, hierarchy});
        }
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Combinations, F16OverflowTest,
                         ::testing::ValuesIn(OverflowCases()),
                         OverflowCaseName);

class ScaledStepTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  // Both runs have the same bits after every step.
  static void ExpectEqualRuns(const ScaledCase& a, const ScaledCase& b) {
    const ScaledRun run_a = RunScaled(a, GetParam());
    const ScaledRun run_b = RunScaled(b, GetParam());
    ASSERT_THAT(run_a.results, Each(IsOk()));
    ASSERT_THAT(run_b.results, Each(IsOk()));
    for (size_t r = 0; r < run_a.ranks.size(); ++r) {
      for (size_t step = 0; step < a.steps.size(); ++step) {
        const AfterStep& one = run_a.ranks[r][step];
        const AfterStep& other = run_b.ranks[r][step];
        EXPECT_TRUE(one.parameters == other.parameters);
        EXPECT_TRUE(one.states == other.states);
        EXPECT_EQ(one.outcome.gradient_norm, other.outcome.gradient_norm);
        EXPECT_EQ(one.outcome.clip_factor, other.outcome.clip_factor);
      }
    }
  }
};

TEST_P(ScaledStepTest, ScalesFromTinyToHugeChangeNoBitOfAnF32Run) {
  ScaledCase plain = FourBuckets();
  for (ParameterSpec& spec : plain.specs) {
    spec.dtype = spec.gradient_dtype = DataType::kF32;
  }
  plain.accumulated_dtype = DataType::kF32;
  plain.steps.resize(2);
  for (size_t i = 0; i < 2; ++i) {
    plain.steps[i] = {.seed = i, .options = {.clip_norm = 0.25}};
    plain.steps[i].own_scale = true;
  }
  for (const int exponent : {-100, -30, 1, 16, 96, 120}) {
    ScaledCase scaled = plain;
    for (ScaledStep& step : scaled.steps) {
      step.options.loss_scale = std::ldexp(1.0, exponent);
    }
    SCOPED_TRACE(exponent);
    ExpectEqualRuns(plain, scaled);
  }
}

TEST_P(ScaledStepTest, TheClipFactorIsOfTheUnscaledNorm) {
  ScaledCase scaled = FourBuckets();
  scaled.steps = {{.seed = 5, .options = {.clip_norm = 0.5}}};
  const ScaledRun clipped = RunScaled(scaled, GetParam());
  scaled.steps[0].options.clip_norm = 0;
  const ScaledRun free = RunScaled(scaled, GetParam());
  ASSERT_THAT(clipped.results, Each(IsOk()));
  ASSERT_THAT(free.results, Each(IsOk()));
  const double norm = free.ranks[0][0].outcome.gradient_norm;
  // Elements are averages of four that are uniform in [-1, 1).
  const double count = 12 * 8 + 700 + 5 * 9 + 300;
  EXPECT_NEAR(norm, std::sqrt(count / 12), 1);
  for (const std::vector<AfterStep>& steps : clipped.ranks) {
    EXPECT_EQ(steps[0].outcome.gradient_norm, norm);
    EXPECT_EQ(steps[0].outcome.clip_factor, 0.5 / (norm + 1e-6));
  }
}

TEST_P(ScaledStepTest, AScaleDoesNotGrowUntilStepsFail) {
  ScaledCase scaled = FourBuckets();
  for (ParameterSpec& spec : scaled.specs) {
    spec.dtype = spec.gradient_dtype = DataType::kF32;
  }
  scaled.accumulated_dtype = DataType::kF32;
  scaled.scaler = {.init_scale = 0x1p58, .growth_interval = 1};
  scaled.steps.assign(12, {.options = {.clip_norm = 0x1p-60}});
  const ScaledRun run = RunScaled(scaled, GetParam());
  ASSERT_THAT(run.results, Each(IsOk()));
  for (const std::vector<AfterStep>& steps : run.ranks) {
    for (const AfterStep& step : steps) EXPECT_TRUE(step.outcome.updated);
    EXPECT_EQ(steps.back().scaler.scale, kDynamicScaleMax);
  }
}

// What went wrong elsewhere, and must be impossible here.

TEST_P(ScaledStepTest, TheScalerNeedsNoListOfBuffersOfOneOptimizer) {
  // Whatever the parameters are and however their gradients come, there is one
  // way to step, and a bad gradient in any of them skips all.
  const ScaledCase all = FourBuckets();
  for (size_t p = 0; p < all.specs.size(); ++p) {
    for (const bool overlap : {true, false}) {
      ScaledCase scaled = all;
      scaled.specs = {all.specs[p]};
      scaled.options.overlap = overlap;
      scaled.steps = StepsWith({.rank = 1, .parameter = 0}, 0);
      const ScaledRun run = RunScaled(scaled, GetParam());
      ASSERT_THAT(run.results, Each(IsOk()));
      for (const std::vector<AfterStep>& steps : run.ranks) {
        EXPECT_TRUE(steps[0].outcome.updated);
        EXPECT_FALSE(steps[1].outcome.updated);
        EXPECT_EQ(steps[3].scaler.scale, 512);
      }
    }
  }
}

TEST_P(ScaledStepTest, TheScalerNeverSeesGradientsThatAreNotReduced) {
  // Each rank's own gradients are finite, and their sum is not.
  ScaledCase scaled = FourBuckets();
  scaled.specs = {
      Spec("matrix", Rule::kMuon, {12, 8}, DataType::kF16, DataType::kF32)};
  scaled.steps = {{.seed = 1}, {.seed = 2, .own_scale = true}, {.seed = 3}};
  scaled.steps[1].options.loss_scale = kLossScaleMax;
  const ScaledRun run = RunScaled(scaled, GetParam());
  const auto unsharded = RunScaledUnsharded(scaled);
  ASSERT_THAT(run.results, Each(IsOk()));
  ASSERT_THAT(unsharded, IsOk());
  for (size_t r = 0; r < run.ranks.size(); ++r) {
    const std::vector<AfterStep>& steps = run.ranks[r];
    EXPECT_FALSE(steps[1].outcome.updated);
    EXPECT_GT(steps[1].outcome.non_finite_count, 0);
    EXPECT_TRUE(steps[1].states == steps[0].states);
    // And what is updated is updated from the reduced ones.
    EXPECT_TRUE(steps[2].parameters == (*unsharded)[r][2].parameters);
  }
}

TEST_P(ScaledStepTest, AnF16OverflowDoesNotPoisonMomentum) {
  ScaledCase scaled = FourBuckets();
  scaled.steps = StepsWith({.rank = 0, .parameter = 0}, 0);
  const ScaledRun run = RunScaled(scaled, GetParam());
  ASSERT_THAT(run.results, Each(IsOk()));
  for (const std::vector<AfterStep>& steps : run.ranks) {
    for (const testing::Bytes& state : steps[3].states) {
      for (size_t i = sizeof(int64_t); i + 4 <= state.size(); i += 4) {
        float value = 0;
        std::memcpy(&value, state.data() + i, 4);
        ASSERT_TRUE(std::isfinite(value));
      }
    }
  }
}

TEST_P(ScaledStepTest, AnOverflowThatOnlyASumOfPartsHasIsFound) {
  // Each part is a good f16, and so is the mean of either part.
  ScaledCase scaled = FourBuckets();
  scaled.mesh = "data=2,tp=2";
  scaled.specs = {scaled.specs[0], scaled.specs[1]};
  for (ParameterSpec& spec : scaled.specs) {
    spec.roles["tp"] = AxisRole::kPartial;
  }
  scaled.steps = {{.seed = 1}, {.seed = 2, .own_scale = true}, {.seed = 3}};
  scaled.steps[1].options.loss_scale = 60000;
  const ScaledRun run = RunScaled(scaled, GetParam());
  const auto unsharded = RunScaledUnsharded(scaled);
  ASSERT_THAT(run.results, Each(IsOk()));
  ASSERT_THAT(unsharded, IsOk());
  for (size_t r = 0; r < run.ranks.size(); ++r) {
    const std::vector<AfterStep>& steps = run.ranks[r];
    EXPECT_FALSE(steps[1].outcome.updated);
    EXPECT_GT(steps[1].outcome.non_finite_count, 0);
    EXPECT_EQ(steps[1].outcome.non_finite_count,
              (*unsharded)[r][1].outcome.non_finite_count);
    EXPECT_TRUE(steps[1].states == steps[0].states);
    EXPECT_TRUE(steps[2].parameters == (*unsharded)[r][2].parameters);
  }
}

void ExpectOneNorm(const ScaledCase& scaled, const RuntimeCase& runtime) {
  const ScaledRun run = RunScaled(scaled, runtime);
  const auto unsharded = RunScaledUnsharded(scaled);
  ASSERT_THAT(run.results, Each(IsOk()));
  ASSERT_THAT(unsharded, IsOk());
  for (size_t r = 0; r < run.ranks.size(); ++r) {
    for (size_t step = 0; step < scaled.steps.size(); ++step) {
      const AfterStep& after = run.ranks[r][step];
      const AfterStep& wanted = (*unsharded)[r][step];
      EXPECT_LT(after.outcome.clip_factor, 1);
      EXPECT_EQ(after.outcome.clip_factor, wanted.outcome.clip_factor);
      EXPECT_EQ(after.outcome.gradient_norm, wanted.outcome.gradient_norm);
      EXPECT_TRUE(after.parameters == wanted.parameters);
    }
  }
}

TEST_P(ScaledStepTest, EveryPipelineStageClipsWithTheNormOfAll) {
  ScaledCase scaled = FourBuckets();
  scaled.mesh = "pp=2,data=2";
  scaled.steps = {{.seed = 1, .options = {.clip_norm = 0.5}},
                  {.seed = 2, .options = {.clip_norm = 0.5}}};
  for (ParameterSpec& spec : scaled.specs) {
    spec.roles["pp"] = AxisRole::kDistinct;
  }
  ExpectOneNorm(scaled, GetParam());
  // Stages with parameters of their own, too.
  for (size_t p = 0; p < scaled.specs.size(); ++p) {
    scaled.specs[p].coordinates["pp"] = {p < 2 ? 0 : 1};
  }
  ExpectOneNorm(scaled, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Runtimes, ScaledStepTest,
                         ::testing::ValuesIn(testing::BothRuntimes(2)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
