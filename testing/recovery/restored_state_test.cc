// An optimizer that is given another one's state goes on as that one would.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optimizer/grad_scaler.h"
#include "optimizer/optimizer_state.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/optimizer_rig.h"
#include "testing/rank_harness.h"
#include "testing/recovery/rank_copy.h"
#include "testing/sharded_case.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

// With everything that there is state of: masters, row moments, two moments.
ShardedCase CaseWithAllState() {
  ShardedCase sharded = SmallCase();
  sharded.options.muon.row_normalization = true;
  sharded.specs[1].dtype = DataType::kBF16;
  sharded.specs[2].dtype = DataType::kF16;
  return sharded;
}

class RestoredStateTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  static absl::Status TakeSteps(const ShardedCase& sharded, Rank rank,
                                int64_t first, int64_t last,
                                ShardedOptimizer& optimizer) {
    for (int64_t step = first; step <= last; ++step) {
      absl::Status s = TakeRigStep(sharded, rank, step, optimizer);
      if (s.ok()) s = optimizer.Synchronize();
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }
};

TEST_P(RestoredStateTest, GoesOnBitForBitAfterAnyStep) {
  const ShardedCase sharded = CaseWithAllState();
  for (const int64_t restored : {0, 1, 3}) {
    const auto results = RunWithRigs(
        sharded, {.runtime = GetParam(), .size = 3},
        [&](Collective& world, OptimizerRig& rig) -> absl::Status {
          const Rank rank = world.rank();
          GradScaler scaler = *GradScaler::Create({});
          absl::Status s =
              TakeSteps(sharded, rank, 1, restored, *rig.optimizer);
          if (!s.ok()) return s;
          absl::StatusOr<RankCopy> copy =
              CopyOfRank(restored, rig.parameters, scaler, *rig.optimizer);
          if (!copy.ok()) return copy.status();
          s = TakeSteps(sharded, rank, restored + 1, 5, *rig.optimizer);
          if (!s.ok()) return s;

          absl::StatusOr<OptimizerRig> other = MakeRig(sharded, world);
          if (!other.ok()) return other.status();
          s = RestoreRank(*copy, other->parameters, scaler, *other->optimizer);
          if (s.ok()) {
            s = TakeSteps(sharded, rank, restored + 1, 5, *other->optimizer);
          }
          if (!s.ok()) return s;
          EXPECT_TRUE(other->parameters == rig.parameters);
          EXPECT_EQ(other->optimizer->Outcome()->step, 5);
          return absl::OkStatus();
        });
    EXPECT_THAT(results, Each(IsOk()));
  }
}

TEST_P(RestoredStateTest, StateOfAnotherShapeIsRefusedAndChangesNothing) {
  const ShardedCase sharded = CaseWithAllState();
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam(), .size = 3},
      [&](Collective& world, OptimizerRig& rig) -> absl::Status {
        ShardedOptimizer& optimizer = *rig.optimizer;
        const auto refused = [&](int32_t p, auto change, const char* text) {
          ParameterState state = *optimizer.State(p);
          // A rank that owns nothing of p is given a piece.
          if (state.pieces.empty()) state.pieces.emplace_back();
          change(state);
          EXPECT_THAT(optimizer.RestoreState(p, state),
                      StatusIs(absl::StatusCode::kInvalidArgument, text));
        };
        const std::vector<float> values(7);
        refused(
            0, [](ParameterState& state) { state.step_count = -1; },
            "state of parameter \"qkv\": want");
        refused(
            0, [](ParameterState& state) { state.pieces.emplace_back(); },
            "state of parameter \"qkv\": want");
        refused(
            2, [](ParameterState& state) { ++state.pieces[0].count; },
            "state of parameter \"bias\": ");
        refused(
            2, [&](ParameterState& state) { state.pieces[0].second = values; },
            "state of parameter \"bias\": ");
        refused(
            0, [&](ParameterState& state) { state.pieces[0].master = values; },
            "state of parameter \"qkv\": ");
        EXPECT_THAT(optimizer.RestoreState(3, {}),
                    StatusIs(absl::StatusCode::kInvalidArgument, "index"));
        EXPECT_THAT(optimizer.RestoreStep(-1),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             "restored step: want >= 0, got -1"));
        EXPECT_EQ(optimizer.State(0)->step_count, 0);
        absl::Status s = TakeSteps(sharded, world.rank(), 1, 1, optimizer);
        if (!s.ok()) return s;
        EXPECT_THAT(optimizer.RestoreState(0, *optimizer.State(0)),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             "before the first BeginStep"));
        EXPECT_THAT(optimizer.RestoreStep(1),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             "before the first BeginStep"));
        return absl::OkStatus();
      });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(RestoredStateTest, RanksThatRestoreOtherStepsFailTheNextOneOnAll) {
  const ShardedCase sharded = CaseWithAllState();
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam(), .size = 3},
      [&](Collective& world, OptimizerRig& rig) -> absl::Status {
        absl::Status s =
            rig.optimizer->RestoreStep(world.rank() == Rank(1) ? 4 : 3);
        if (!s.ok()) return s;
        s = TakeRigStep(sharded, world.rank(), 1, *rig.optimizer);
        if (s.ok()) s = rig.optimizer->Synchronize();
        EXPECT_THAT(s,
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             "the step number is not the same on all ranks"));
        return absl::OkStatus();
      });
  EXPECT_THAT(results, Each(IsOk()));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, RestoredStateTest,
                         ::testing::ValuesIn(BothRuntimes(2)), RuntimeCaseName);

}  // namespace
}  // namespace muonshard::testing
