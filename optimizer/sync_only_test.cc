// Parameters that several sub-graphs use: any number of check-ins, and one
// reduction, by Finish.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "optimizer/sharded_optimizer.h"
#include "testing/optimizer_rig.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

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

// Parameters of SmallCase, of which "proj" is used twice.
ShardedCase SharedWeightCase(GradientMode mode) {
  ShardedCase sharded = SmallCase();
  sharded.specs[1].check_ins = CheckIns::kSyncOnly;
  sharded.specs[1].gradient_mode = mode;
  // A bucket for each, so that "proj" could travel early.
  sharded.options.plan.bucket_bytes_max = 1;
  return sharded;
}

// The whole gradient of "proj": multiples of 2^-6, so that sums of its halves
// and quarters are exact.
std::vector<float> SharedGradient(Rank rank) {
  std::vector<float> gradient(32);
  for (int32_t i = 0; i < 32; ++i) {
    gradient[static_cast<size_t>(i)] =
        static_cast<float>((7 * i + 13 * ToInt(rank)) % 64 - 32) / 64;
  }
  return gradient;
}

// Checks "proj" in `times` times, with growing sums or with equal parts of the
// one gradient.
absl::Status CheckInShared(const ShardedCase& sharded, Rank rank, int32_t times,
                           ShardedOptimizer& optimizer) {
  const std::vector<float> gradient = SharedGradient(rank);
  const bool adds = sharded.specs[1].gradient_mode == GradientMode::kAccumulate;
  for (int32_t i = 0; i < times; ++i) {
    const float share =
        static_cast<float>(adds ? 1 : i + 1) / static_cast<float>(times);
    std::vector<float> part;
    for (const float value : gradient) part.push_back(value * share);
    const absl::Status s =
        optimizer.GradientReady(1, part.data(), 32, DataType::kF32);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

class SyncOnlyTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  // One step in which "proj" comes `times` times, before or after the others.
  std::vector<std::vector<ParameterBytes>> ParametersAfter(
      const ShardedCase& sharded, int32_t times, bool first) {
    std::vector<std::vector<ParameterBytes>> parameters(3);
    const auto results = RunWithRigs(
        sharded, {.runtime = GetParam()},
        [&](Collective& world, OptimizerRig& rig) {
          const Rank rank = world.rank();
          absl::Status s = rig.optimizer->BeginStep(1);
          if (s.ok() && first) {
            s = CheckInShared(sharded, rank, times, *rig.optimizer);
          }
          if (s.ok()) s = CheckInAll(sharded, rank, 1, *rig.optimizer, 1);
          if (s.ok() && !first) {
            s = CheckInShared(sharded, rank, times, *rig.optimizer);
          }
          if (s.ok()) s = FinishAndStep(*rig.optimizer);
          if (s.ok()) s = rig.optimizer->Synchronize();
          parameters[static_cast<size_t>(ToInt(rank))] = rig.parameters;
          return s;
        });
    EXPECT_THAT(results, Each(IsOk()));
    return parameters;
  }
};

TEST_P(SyncOnlyTest, AnyNumberOfCheckInsGivesTheBitsOfOne) {
  for (const GradientMode mode : {GradientMode::kCopyLast, GradientMode::kView,
                                  GradientMode::kAccumulate}) {
    const ShardedCase sharded = SharedWeightCase(mode);
    ShardedCase plain = sharded;
    plain.specs[1].check_ins = CheckIns::kExactly;
    const auto want = ParametersAfter(plain, 1, true);
    for (const int32_t times : {1, 2, 4}) {
      for (const bool first : {false, true}) {
        EXPECT_TRUE(ParametersAfter(sharded, times, first) == want)
            << "mode " << static_cast<int>(mode) << ", " << times
            << " check-ins";
      }
    }
  }
}

TEST_P(SyncOnlyTest, ItIsReducedByFinishAndNotBefore) {
  const ShardedCase sharded = SharedWeightCase(GradientMode::kCopyLast);
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam()},
      [&](Collective& world, OptimizerRig& rig) {
        ShardedOptimizer& optimizer = *rig.optimizer;
        const auto bytes_sent = [&] {
          const auto statistics = optimizer.Statistics();
          EXPECT_THAT(statistics, IsOk());
          return statistics.ok() ? statistics->bucket_bytes_sent : 0;
        };
        absl::Status s = optimizer.BeginStep(1);
        if (s.ok()) s = CheckInAll(sharded, world.rank(), 1, optimizer, 1);
        if (!s.ok()) return s;
        // Loopback runs small operations in the call of the last to arrive.
        if (s = MeetAll(world); !s.ok()) return s;
        const uint64_t before = bytes_sent();
        EXPECT_GT(before, 0u);
        s = CheckInShared(sharded, world.rank(), 2, optimizer);
        if (s.ok()) s = MeetAll(world);
        if (!s.ok()) return s;
        EXPECT_EQ(bytes_sent(), before);
        absl::StatusOr<ReducedGradients> reduced = optimizer.Finish();
        if (!reduced.ok()) return reduced.status();
        if (s = MeetAll(world); !s.ok()) return s;
        // Two send their part to the owner, who sends nothing.
        const Bucket& last = optimizer.plan().buckets.back();
        EXPECT_EQ(last.parameters, std::vector<int32_t>{1});
        const bool owns = last.pieces[0].owner == ToInt(world.rank());
        EXPECT_EQ(bytes_sent(), before + (owns ? 0 : 32 * sizeof(float)));
        s = optimizer.Step(*std::move(reduced), {});
        return s.ok() ? optimizer.Synchronize() : s;
      });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(SyncOnlyTest, OneCheckInOnOneRankIsAGradientAndNoneAnywhereIsNot) {
  const ShardedCase sharded = SharedWeightCase(GradientMode::kCopyLast);
  for (const bool on_one_rank : {false, true}) {
    const auto results = RunWithRigs(
        sharded, {.runtime = GetParam()},
        [&](Collective& world, OptimizerRig& rig) {
          const Rank rank = world.rank();
          absl::Status s = rig.optimizer->BeginStep(1);
          if (s.ok()) s = CheckInAll(sharded, rank, 1, *rig.optimizer, 1);
          if (s.ok() && on_one_rank && rank == Rank{2}) {
            s = CheckInShared(sharded, rank, 3, *rig.optimizer);
          }
          if (s.ok()) s = FinishAndStep(*rig.optimizer);
          if (!s.ok()) return s;
          s = rig.optimizer->Synchronize();
          if (on_one_rank) return s;
          EXPECT_THAT(s, StatusIs(absl::StatusCode::kFailedPrecondition,
                                  "parameter \"proj\" has a gradient on none"));
          return absl::OkStatus();
        });
    EXPECT_THAT(results, Each(IsOk()));
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, SyncOnlyTest,
                         ::testing::ValuesIn(testing::BothRuntimes(5)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
