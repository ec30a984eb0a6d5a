// What State shows of an optimizer's parameters.

#include "optimizer/optimizer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "optimizer/compute/convert.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/optimizer_rig.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::OptimizerRig;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RunWithRigs;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::StatusIs;
using ::muonshard::testing::TakeRigStep;
using ::testing::Each;

class OptimizerStateTest : public ::testing::TestWithParam<RuntimeCase> {};

TEST_P(OptimizerStateTest, PiecesOfAllRanksTogetherAreEveryElementOnce) {
  const ShardedCase sharded = SmallCase();
  std::vector<std::vector<int32_t>> covered;
  for (const ParameterSpec& spec : sharded.specs) {
    covered.emplace_back(static_cast<size_t>(ElementCount(spec)));
  }
  // Ranks own different elements, so their tasks may write at once.
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam(), .size = 3},
      [&](Collective&, OptimizerRig& rig) {
        for (size_t p = 0; p < covered.size(); ++p) {
          const auto state = rig.optimizer->State(static_cast<int32_t>(p));
          if (!state.ok()) return state.status();
          EXPECT_EQ(state->step_count, 0);
          for (const StatePiece& piece : state->pieces) {
            for (int64_t i = 0; i < piece.count; ++i) {
              ++covered[p][static_cast<size_t>(piece.parameter_offset + i)];
            }
          }
        }
        return absl::OkStatus();
      });
  EXPECT_THAT(results, Each(IsOk()));
  for (const std::vector<int32_t>& elements : covered) {
    EXPECT_THAT(elements, Each(1));
  }
}

TEST_P(OptimizerStateTest, HasWhatTheRuleKeepsAndMastersOfNarrowParameters) {
  ShardedCase sharded = SmallCase();
  sharded.options.muon.row_normalization = true;
  sharded.specs[1].dtype = DataType::kBF16;
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam(), .size = 3},
      [&](Collective& world, OptimizerRig& rig) {
        absl::Status s = TakeRigStep(sharded, world.rank(), 1, *rig.optimizer);
        if (!s.ok()) return s;
        for (size_t p = 0; p < sharded.specs.size(); ++p) {
          const bool muon = sharded.specs[p].rule == Rule::kMuon;
          // It waits for the step by itself.
          const auto state = rig.optimizer->State(static_cast<int32_t>(p));
          if (!state.ok()) return state.status();
          EXPECT_EQ(state->step_count, 1);
          for (const StatePiece& piece : state->pieces) {
            const auto count = static_cast<size_t>(piece.count);
            EXPECT_EQ(piece.first.size(), count);
            EXPECT_EQ(piece.second.size(), muon ? 0 : count);
            EXPECT_EQ(piece.master.size(), p == 1 ? count : 0);
            EXPECT_EQ(piece.row_moments.empty(), !muon);
          }
        }
        return rig.optimizer->Synchronize();
      });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(OptimizerStateTest, AParameterIsItsMasterRoundedToNearest) {
  ShardedCase sharded = SmallCase();
  for (ParameterSpec& spec : sharded.specs) spec.dtype = DataType::kF16;
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam(), .size = 3},
      [&](Collective& world, OptimizerRig& rig) {
        for (int64_t step = 1; step <= 3; ++step) {
          absl::Status s =
              TakeRigStep(sharded, world.rank(), step, *rig.optimizer);
          if (s.ok()) s = rig.optimizer->Synchronize();
          if (!s.ok()) return s;
        }
        for (size_t p = 0; p < sharded.specs.size(); ++p) {
          const auto state = rig.optimizer->State(static_cast<int32_t>(p));
          if (!state.ok()) return state.status();
          for (const StatePiece& piece : state->pieces) {
            std::vector<std::byte> rounded(piece.master.size() * 2);
            FromFloat(DataType::kF16, piece.master, rounded.data());
            EXPECT_TRUE(std::ranges::equal(
                rounded,
                std::span(rig.parameters[p])
                    .subspan(2 * static_cast<size_t>(piece.parameter_offset),
                             rounded.size())));
          }
        }
        return absl::OkStatus();
      });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(OptimizerStateTest, OfAParameterElsewhereIsEmptyAndOfNoneAnError) {
  ShardedCase sharded = SmallCase();
  sharded.mesh = "pp=3";
  for (int32_t p = 0; p < 3; ++p) {
    ParameterSpec& spec = sharded.specs[static_cast<size_t>(p)];
    spec.roles["pp"] = AxisRole::kDistinct;
    spec.coordinates["pp"] = {p};
  }
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam(), .size = 3},
      [&](Collective& world, OptimizerRig& rig) {
        for (int32_t p = 0; p < 3; ++p) {
          const auto state = rig.optimizer->State(p);
          EXPECT_THAT(state, IsOk());
          EXPECT_EQ(state->pieces.empty(), p != ToInt(world.rank()));
        }
        EXPECT_THAT(rig.optimizer->State(3),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             "want an index in [0, 3)"));
        return absl::OkStatus();
      });
  EXPECT_THAT(results, Each(IsOk()));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, OptimizerStateTest,
                         ::testing::ValuesIn(testing::BothRuntimes(2)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
