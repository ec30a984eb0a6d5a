// What went wrong in sharded Muon elsewhere, one test for each: it must fail if
// the guard against it is removed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/optimizer_rig.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::CheckIn;
using ::muonshard::testing::CheckInAll;
using ::muonshard::testing::FinishAndStep;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::MeetAll;
using ::muonshard::testing::OptimizerRig;
using ::muonshard::testing::ParameterBytes;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RunWithRigs;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::StatusIs;
using ::testing::Each;

class StepRegressionTest : public ::testing::TestWithParam<RuntimeCase> {};

// "The scaler looked for a list of buffers that one optimizer did not have."
TEST_P(StepRegressionTest, OnlyFinishMakesReducedGradientsAndOnlyForItsOwner) {
  static_assert(!std::is_default_constructible_v<ReducedGradients>);
  static_assert(!std::is_copy_constructible_v<ReducedGradients>);
  static_assert(!std::is_copy_assignable_v<ReducedGradients>);
  static_assert(!std::is_constructible_v<ReducedGradients,
                                         const ShardedOptimizer*, int64_t>);
  const ShardedCase sharded = SmallCase();
  const auto refused = absl::StatusCode::kFailedPrecondition;
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam()},
      [&](Collective& world, OptimizerRig& rig) {
        auto other = MakeRig(sharded, world);
        if (!other.ok()) return other.status();
        absl::Status s = rig.optimizer->BeginStep(1);
        if (s.ok()) s = other->optimizer->BeginStep(1);
        if (s.ok()) s = CheckInAll(sharded, world.rank(), 1, *rig.optimizer);
        if (s.ok()) s = CheckInAll(sharded, world.rank(), 1, *other->optimizer);
        if (!s.ok()) return s;
        auto first = rig.optimizer->Finish();
        if (!first.ok()) return first.status();
        auto second = other->optimizer->Finish();
        if (!second.ok()) return second.status();
        // Of another optimizer.
        EXPECT_THAT(rig.optimizer->Step(*std::move(second), {}),
                    StatusIs(refused, "Finish just returned"));
        s = rig.optimizer->Step(*std::move(first), {});
        if (s.ok()) s = rig.optimizer->Synchronize();
        if (!s.ok()) return s;
        // Stepped before.
        EXPECT_THAT(rig.optimizer->Step(*std::move(first), {}),
                    StatusIs(refused, "Finish just returned"));
        return absl::OkStatus();
      });
  EXPECT_THAT(results, Each(IsOk()));
}

// "Hooks fired twice under pipeline parallelism."
TEST_P(StepRegressionTest, HooksThatFireTwiceFailTheStepOnEveryRank) {
  for (const bool overlap : {false, true}) {
    for (int32_t culprit = 0; culprit < 3; ++culprit) {
      ShardedCase sharded = SmallCase();
      sharded.options.overlap = overlap;
      const auto results = RunWithRigs(
          sharded, {.runtime = GetParam()},
          [&](Collective& world, OptimizerRig& rig) {
            const Rank rank = world.rank();
            const std::vector<ParameterBytes> before = rig.parameters;
            absl::Status s = rig.optimizer->BeginStep(2);
            for (int32_t m = 0; m < 2 && s.ok(); ++m) {
              s = CheckInAll(sharded, rank, 1, *rig.optimizer);
            }
            if (!s.ok()) return s;
            if (ToInt(rank) == culprit) {
              EXPECT_THAT(CheckIn(sharded, rank, 0, 1, *rig.optimizer),
                          StatusIs(absl::StatusCode::kFailedPrecondition,
                                   "want 2 check-ins in step 1"));
            }
            s = FinishAndStep(*rig.optimizer);
            if (!s.ok()) return s;
            EXPECT_THAT(
                rig.optimizer->Synchronize(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         absl::StrCat("parameter \"qkv\" was checked in more "
                                      "often than there are micro-batches on "
                                      "rank ",
                                      culprit)));
            EXPECT_TRUE(rig.parameters == before);
            return absl::OkStatus();
          });
      EXPECT_THAT(results, Each(IsOk()));
    }
  }
}

// "A parameter without a gradient left peers hanging."
TEST_P(StepRegressionTest, AParameterWithoutAGradientNeverLeavesPeersHanging) {
  for (const AbsentGradient absent :
       {AbsentGradient::kError, AbsentGradient::kZeros,
        AbsentGradient::kSkip}) {
    for (uint32_t lacking = 1; lacking < 8; ++lacking) {  // A set of ranks.
      ShardedCase sharded = SmallCase();
      sharded.options.plan.bucket_bytes_max = 1;
      sharded.specs[1].absent_gradient = absent;
      const auto results = RunWithRigs(
          sharded, {.runtime = GetParam()},
          [&](Collective& world, OptimizerRig& rig) {
            const bool lacks = ((lacking >> ToInt(world.rank())) & 1) != 0;
            absl::Status s = rig.optimizer->BeginStep(1);
            if (s.ok()) {
              s = CheckInAll(sharded, world.rank(), 1, *rig.optimizer,
                             lacks ? 1 : -1);
            }
            if (s.ok()) s = FinishAndStep(*rig.optimizer);
            if (!s.ok()) return s;
            s = rig.optimizer->Synchronize();
            if (lacking == 7 && absent == AbsentGradient::kError) {
              EXPECT_THAT(s, StatusIs(absl::StatusCode::kFailedPrecondition,
                                      "\"proj\" has a gradient on none"));
              return absl::OkStatus();
            }
            return s;
          });
      EXPECT_THAT(results, Each(IsOk()));
    }
  }
}

// Four parameters of one size and of different roles, on hosts of two ranks.
// Buckets that changed places would not even be noticed by their sizes.
ShardedCase RolesCase(Hierarchy hierarchy) {
  ShardedCase sharded;
  for (const char* host : {"a", "b", "c", "d"}) {
    sharded.hosts.insert(sharded.hosts.end(), 2, host);
  }
  sharded.options.plan.hierarchy = hierarchy;
  sharded.mesh = "dp=2,data=4";
  sharded.seed = 9;
  for (int32_t p = 0; p < 4; ++p) {
    ParameterSpec spec;
    spec.name = absl::StrCat("weight.", p);
    spec.rule = Rule::kMuon;
    spec.shape = {8, 8};
    if (p % 2 == 1) spec.roles["dp"] = AxisRole::kReplicate;
    sharded.specs.push_back(spec);
  }
  sharded.options.plan.bucket_bytes_max = 1;
  return sharded;
}

// "The order of collectives never depends on readiness": the bucket that is
// first in the plan is full last.
TEST_P(StepRegressionTest, NoBucketIsLaunchedBeforeOneThatIsAheadInThePlan) {
  for (const Hierarchy hierarchy : {Hierarchy::kOff, Hierarchy::kAuto}) {
    const ShardedCase sharded = RolesCase(hierarchy);
    const auto results = RunWithRigs(
        sharded, {.runtime = GetParam()},
        [&](Collective& world, OptimizerRig& rig) {
          const Rank rank = world.rank();
          ShardedOptimizer& optimizer = *rig.optimizer;
          const auto bytes_sent = [&] {
            const auto statistics = optimizer.Statistics();
            EXPECT_THAT(statistics, IsOk());
            return statistics.ok() ? statistics->bucket_bytes_sent : 0;
          };
          const int32_t first = optimizer.plan().buckets[0].parameters[0];
          EXPECT_EQ(optimizer.plan().LevelsOfGroup(0, rank).hierarchical(),
                    hierarchy == Hierarchy::kAuto);
          const uint64_t before = bytes_sent();
          absl::Status s = optimizer.BeginStep(1);
          if (s.ok()) s = CheckInAll(sharded, rank, 1, optimizer, first);
          // Loopback runs small operations in the call of the last to arrive.
          if (s.ok()) s = MeetAll(world);
          if (!s.ok()) return s;
          EXPECT_EQ(bytes_sent(), before);
          s = CheckIn(sharded, rank, first, 1, optimizer);
          if (s.ok()) s = MeetAll(world);
          if (!s.ok()) return s;
          EXPECT_GT(bytes_sent(), before);
          s = FinishAndStep(optimizer);
          return s.ok() ? optimizer.Synchronize() : s;
        });
    EXPECT_THAT(results, Each(IsOk()));
  }
}

// The same, for every order in which hooks may fire on each rank.
TEST_P(StepRegressionTest, NoOrderOfHooksChangesABit) {
  for (const Hierarchy hierarchy : {Hierarchy::kOff, Hierarchy::kAuto}) {
    const ShardedCase sharded = RolesCase(hierarchy);
    std::vector<std::vector<ParameterBytes>> parameters[2];
    for (const bool shuffled : {false, true}) {
      auto& kept = parameters[shuffled ? 1 : 0];
      kept.resize(8);
      const auto results = RunWithRigs(
          sharded, {.runtime = GetParam()},
          [&](Collective& world, OptimizerRig& rig) {
            const Rank rank = world.rank();
            absl::Status s = rig.optimizer->BeginStep(1);
            for (int32_t i = 0; i < 4 && s.ok(); ++i) {
              const int32_t p = shuffled ? (3 * i + ToInt(rank)) % 4 : i;
              s = CheckIn(sharded, rank, p, 1, *rig.optimizer);
            }
            if (s.ok()) s = FinishAndStep(*rig.optimizer);
            if (s.ok()) s = rig.optimizer->Synchronize();
            kept[static_cast<size_t>(ToInt(rank))] = rig.parameters;
            return s;
          });
      EXPECT_THAT(results, Each(IsOk()));
    }
    EXPECT_TRUE(parameters[0] == parameters[1]);
  }
}

// "An fp16 overflow was not skipped and poisoned momentum for ever": also where
// the rank that overflows is only the duplicate of one that does not.
TEST_P(StepRegressionTest, AnOverflowOnOneDuplicateSkipsTheStepOnAllRanks) {
  ShardedCase sharded = SmallCase();
  sharded.mesh = "data=2,tp=2";
  for (ParameterSpec& spec : sharded.specs) {
    spec.gradient_dtype = DataType::kF16;
    spec.roles["tp"] = AxisRole::kDuplicate;
  }
  for (int32_t culprit = 0; culprit < 4; ++culprit) {
    const auto results = RunWithRigs(
        sharded, {.runtime = GetParam()},
        [&](Collective& world, OptimizerRig& rig) {
          const std::vector<ParameterBytes> before = rig.parameters;
          absl::Status s = rig.optimizer->BeginStep(1);
          if (s.ok()) {
            s = CheckInAll(sharded, world.rank(), 1, *rig.optimizer, 1);
          }
          std::vector<uint16_t> gradient(32, 0x3c00);  // 1.
          if (ToInt(world.rank()) == culprit)
            gradient[3] = 0x7c00;  // Infinity.
          if (s.ok()) {
            s = rig.optimizer->GradientReady(1, gradient.data(), 32,
                                             DataType::kF16);
          }
          if (s.ok()) s = FinishAndStep(*rig.optimizer);
          if (!s.ok()) return s;
          const absl::StatusOr<StepOutcome> outcome = rig.optimizer->Outcome();
          if (!outcome.ok()) return outcome.status();
          EXPECT_FALSE(outcome->updated);
          EXPECT_EQ(outcome->non_finite_count, 1);
          s = rig.optimizer->Synchronize();
          EXPECT_TRUE(rig.parameters == before);
          return s;
        });
    EXPECT_THAT(results, Each(IsOk()));
  }
}

// "One pipeline stage clipped with another norm."
TEST_P(StepRegressionTest, EveryPipelineStageClipsWithTheNormOfAllStages) {
  ShardedCase sharded = SmallCase();
  sharded.mesh = "pp=2,data=2";
  for (ParameterSpec& spec : sharded.specs) {
    spec.roles["pp"] = AxisRole::kDistinct;
  }
  StepOptions options;
  options.clip_norm = 0.25;
  std::vector<std::optional<StepOutcome>> outcomes(4);
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam()},
      [&](Collective& world, OptimizerRig& rig) {
        const Rank rank = world.rank();
        absl::Status s = rig.optimizer->BeginStep(1);
        // All of stage 0 is 3 and all of stage 1 is 4.
        const float value = ToInt(rank) < 2 ? 3 : 4;
        for (int32_t p = 0; p < 3 && s.ok(); ++p) {
          const int64_t count =
              ElementCount(sharded.specs[static_cast<size_t>(p)]);
          const std::vector<float> gradient(static_cast<size_t>(count), value);
          s = rig.optimizer->GradientReady(p, gradient.data(), count,
                                           DataType::kF32);
        }
        if (s.ok()) s = FinishAndStep(*rig.optimizer, options);
        if (!s.ok()) return s;
        const absl::StatusOr<StepOutcome> outcome = rig.optimizer->Outcome();
        if (!outcome.ok()) return outcome.status();
        outcomes[static_cast<size_t>(ToInt(rank))] = *outcome;
        return rig.optimizer->Synchronize();
      });
  ASSERT_THAT(results, Each(IsOk()));
  // 96 + 32 + 300 elements on each stage.
  const double norm = std::sqrt(428.0 * (3 * 3 + 4 * 4));
  for (const std::optional<StepOutcome>& outcome : outcomes) {
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->gradient_norm, norm);
    EXPECT_EQ(outcome->clip_factor, outcomes[0]->clip_factor);
    EXPECT_LT(outcome->clip_factor, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, StepRegressionTest,
                         ::testing::ValuesIn(testing::BothRuntimes(3)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
