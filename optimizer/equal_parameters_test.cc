// Parameters that should be the same on several ranks are compared, in the
// first step and every so many; a difference fails the step on every rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "optimizer/sharded_optimizer.h"
#include "testing/optimizer_rig.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::OptimizerRig;
using ::muonshard::testing::ParameterBytes;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RunWithRigs;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::StatusIs;
using ::muonshard::testing::TakeRigStep;
using ::testing::Each;

// Over "dp=2,data=2,tp=2": one parameter of each way to be the same on several
// ranks, and one that is the same on none.
enum : int32_t { kReplicated, kDuplicated, kExpert, kAlone };

ShardedCase EveryWayCase(int64_t interval) {
  ShardedCase sharded;
  sharded.mesh = "dp=2,data=2,tp=2";
  sharded.seed = 5;
  const auto add = [&](const char* name, AxisRole dp, AxisRole data,
                       AxisRole tp) {
    ParameterSpec spec;
    spec.name = name;
    spec.rule = Rule::kMuon;
    spec.shape = {6, 5};
    spec.roles = {{"dp", dp}, {"data", data}, {"tp", tp}};
    sharded.specs.push_back(spec);
  };
  add("replicated", AxisRole::kReplicate, AxisRole::kShard,
      AxisRole::kDistinct);
  add("duplicated", AxisRole::kReplicate, AxisRole::kShard,
      AxisRole::kDuplicate);
  add("expert", AxisRole::kDistinct, AxisRole::kShard, AxisRole::kDistinct);
  add("alone", AxisRole::kDistinct, AxisRole::kDistinct, AxisRole::kDistinct);
  sharded.options.equality_check_interval = interval;
  return sharded;
}

void FlipABit(int32_t p, size_t byte, OptimizerRig& rig) {
  rig.parameters[static_cast<size_t>(p)][byte] ^= std::byte{1};
}

// Takes a step, and returns what it came to.
absl::Status StepOf(const ShardedCase& sharded, const Collective& world,
                    int64_t step, OptimizerRig& rig) {
  const absl::Status s =
      TakeRigStep(sharded, world.rank(), step, *rig.optimizer);
  return s.ok() ? rig.optimizer->Synchronize() : s;
}

class EqualParametersTest : public ::testing::TestWithParam<RuntimeCase> {};

TEST_P(EqualParametersTest, FirstValuesThatDifferFailTheFirstStepOnAllRanks) {
  const ShardedCase sharded = EveryWayCase(100);
  // Rank 5 is dp=1,data=0,tp=1.
  const std::map<int32_t, std::string> wants = {
      {kReplicated,
       "parameter \"replicated\" is not the same on its 4 ranks at tp=1"},
      {kDuplicated, "parameter \"duplicated\" is not the same on its 8 ranks"},
      {kExpert,
       "parameter \"expert\" is not the same on its 2 ranks at dp=1,tp=1"}};
  for (const auto& [p, text] : wants) {
    const auto results = RunWithRigs(
        sharded, {.runtime = GetParam()},
        [&, p = p, &text = text](Collective& world, OptimizerRig& rig) {
          const bool culprit = world.rank() == Rank{5};
          if (culprit) FlipABit(p, 119, rig);
          const std::vector<ParameterBytes> before = rig.parameters;
          // An error stays one until what is wrong was put right.
          for (int64_t step = 1; step <= 2; ++step) {
            EXPECT_THAT(StepOf(sharded, world, step, rig),
                        StatusIs(absl::StatusCode::kFailedPrecondition, text));
            EXPECT_TRUE(rig.parameters == before);
          }
          if (culprit) FlipABit(p, 119, rig);
          return StepOf(sharded, world, 3, rig);
        });
    EXPECT_THAT(results, Each(IsOk()));
  }
}

TEST_P(EqualParametersTest, WhatIsTheSameOnNoOtherRankIsNotCompared) {
  const ShardedCase sharded = EveryWayCase(1);
  const auto results = RunWithRigs(sharded, {.runtime = GetParam()},
                                   [&](Collective& world, OptimizerRig& rig) {
                                     if (world.rank() == Rank{5})
                                       FlipABit(kAlone, 0, rig);
                                     return StepOf(sharded, world, 1, rig);
                                   });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(EqualParametersTest, ADifferenceIsFoundByTheNextCheckAndNotBefore) {
  const ShardedCase sharded = EveryWayCase(3);
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam()},
      [&](Collective& world, OptimizerRig& rig) {
        for (int64_t step = 1; step <= 4; ++step) {
          // All of one replica, so that no gather puts it right.
          if (step == 2 && ToInt(world.rank()) >= 4) {
            FlipABit(kReplicated, 40, rig);
          }
          const absl::Status s = StepOf(sharded, world, step, rig);
          if (step < 4) {
            EXPECT_THAT(s, IsOk()) << "step " << step;
          } else {
            EXPECT_THAT(s, StatusIs(absl::StatusCode::kFailedPrecondition,
                                    "step 4 was not taken: parameter "
                                    "\"replicated\" is not the same"));
          }
        }
        return absl::OkStatus();
      });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(EqualParametersTest, WithoutAnIntervalNothingIsComparedAndNoByteSent) {
  std::map<int64_t, std::vector<uint64_t>> control_bytes;  // By interval.
  for (const int64_t interval : {0, 2}) {
    const ShardedCase sharded = EveryWayCase(interval);
    std::vector<uint64_t>& bytes = control_bytes[interval];
    const auto results = RunWithRigs(
        sharded, {.runtime = GetParam()},
        [&](Collective& world, OptimizerRig& rig) {
          if (interval == 0 && world.rank() == Rank{5}) {
            FlipABit(kReplicated, 0, rig);
          }
          for (int64_t step = 1; step <= 2; ++step) {
            const auto before = rig.optimizer->Statistics();
            const absl::Status s = StepOf(sharded, world, step, rig);
            if (!s.ok()) return s;
            const auto after = rig.optimizer->Statistics();
            if (world.rank() != Rank{0}) continue;
            bytes.push_back(after->control_bytes_sent -
                            before->control_bytes_sent);
          }
          return absl::OkStatus();
        });
    EXPECT_THAT(results, Each(IsOk()));
  }
  ASSERT_EQ(control_bytes[0].size(), 2u);
  ASSERT_EQ(control_bytes[2].size(), 2u);
  EXPECT_EQ(control_bytes[0][0], control_bytes[0][1]);
  EXPECT_EQ(control_bytes[2][1], control_bytes[0][1]);
  EXPECT_GT(control_bytes[2][0], control_bytes[0][0]);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, EqualParametersTest,
                         ::testing::ValuesIn(testing::BothRuntimes(3)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
