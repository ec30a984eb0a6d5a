// Gradient buffers that are given back between steps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "optimizer/sharded_optimizer.h"
#include "testing/optimizer_rig.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::CheckInAll;
using ::muonshard::testing::FinishAndStep;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::OptimizerRig;
using ::muonshard::testing::RunSharded;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RunUnsharded;
using ::muonshard::testing::RunWithRigs;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::ShardedRun;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::TakeRigStep;
using ::muonshard::testing::UnshardedRun;
using ::testing::Each;

ShardedCase ReleasingCase() {
  ShardedCase sharded = SmallCase();
  sharded.options.release_gradients = true;
  return sharded;
}

int64_t BytesHeld(const ShardedOptimizer& optimizer) {
  const auto statistics = optimizer.Statistics();
  EXPECT_THAT(statistics, IsOk());
  return statistics.ok() ? statistics->gradient_bytes_held : -1;
}

int64_t BytesOfBuckets(const Plan& plan) {
  int64_t bytes = 0;
  for (const Bucket& bucket : plan.buckets) {
    bytes += bucket.count * int64_t{sizeof(float)};
  }
  return bytes;
}

class ReleasedGradientsTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  // The check-ins of a step.
  using Backward = std::function<absl::Status(Collective&, OptimizerRig&)>;

  // Gradients are held in a step and in none other, however it ends.
  void ExpectReleasedAfter(const ShardedCase& sharded, const Backward& backward,
                           absl::StatusCode want) {
    const auto results = RunWithRigs(
        sharded, {.runtime = GetParam()},
        [&](Collective& world, OptimizerRig& rig) {
          ShardedOptimizer& optimizer = *rig.optimizer;
          EXPECT_EQ(BytesHeld(optimizer), 0);
          for (int32_t i = 0; i < 2; ++i) {
            absl::Status s = optimizer.BeginStep(1);
            if (!s.ok()) return s;
            EXPECT_EQ(BytesHeld(optimizer), BytesOfBuckets(optimizer.plan()));
            s = backward(world, rig);
            if (s.ok()) s = FinishAndStep(optimizer);
            if (!s.ok()) return s;
            EXPECT_EQ(optimizer.Synchronize().code(), want);
            EXPECT_EQ(BytesHeld(optimizer), 0);
          }
          return absl::OkStatus();
        });
    EXPECT_THAT(results, Each(IsOk()));
  }
};

TEST_P(ReleasedGradientsTest, AreGivenBackByAStepThatUpdates) {
  const ShardedCase sharded = ReleasingCase();
  ExpectReleasedAfter(
      sharded,
      [&](Collective& world, OptimizerRig& rig) {
        return CheckInAll(sharded, world.rank(), 1, *rig.optimizer);
      },
      absl::StatusCode::kOk);
}

TEST_P(ReleasedGradientsTest, AreGivenBackByAStepThatIsSkipped) {
  const ShardedCase sharded = ReleasingCase();
  ExpectReleasedAfter(
      sharded,
      [&](Collective& world, OptimizerRig& rig) {
        absl::Status s =
            CheckInAll(sharded, world.rank(), 1, *rig.optimizer, 1);
        const std::vector<float> gradient(
            32, std::numeric_limits<float>::infinity());
        return s.ok() ? rig.optimizer->GradientReady(1, gradient.data(), 32,
                                                     DataType::kF32)
                      : s;
      },
      absl::StatusCode::kOk);
}

TEST_P(ReleasedGradientsTest, AreGivenBackByAStepThatFails) {
  const ShardedCase sharded = ReleasingCase();
  ExpectReleasedAfter(
      sharded,
      [&](Collective& world, OptimizerRig& rig) {
        return CheckInAll(sharded, world.rank(), 1, *rig.optimizer, 1);
      },
      absl::StatusCode::kFailedPrecondition);
}

TEST_P(ReleasedGradientsTest, StayWhereTheyAreUnlessAskedFor) {
  const ShardedCase sharded = SmallCase();
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam()},
      [&](Collective& world, OptimizerRig& rig) {
        absl::Status s = TakeRigStep(sharded, world.rank(), 1, *rig.optimizer);
        if (s.ok()) s = rig.optimizer->Synchronize();
        EXPECT_EQ(BytesHeld(*rig.optimizer),
                  BytesOfBuckets(rig.optimizer->plan()));
        return s;
      });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(ReleasedGradientsTest, ViewsAreHandedOutAnewAndTheOldMemoryIsGone) {
  ShardedCase sharded = ReleasingCase();
  sharded.specs[1].gradient_mode = GradientMode::kView;
  sharded.options.plan.bucket_bytes_max = 1;
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam()},
      [&](Collective& world, OptimizerRig& rig) {
        ShardedOptimizer& optimizer = *rig.optimizer;
        EXPECT_EQ(optimizer.GradientView(1), nullptr);
        for (int64_t step = 1; step <= 2; ++step) {
          absl::Status s = optimizer.BeginStep(1);
          if (!s.ok()) return s;
          auto* view = static_cast<float*>(optimizer.GradientView(1));
          if (view == nullptr) return absl::InternalError("no view");
          for (int32_t i = 0; i < 32; ++i) {
            EXPECT_EQ(view[i], 0);
            view[i] = static_cast<float>(i);
          }
          s = optimizer.GradientReady(1, view, 32, DataType::kF32);
          if (s.ok()) {
            s = CheckInAll(sharded, world.rank(), step, optimizer, 1);
          }
          if (!s.ok()) return s;
          absl::StatusOr<ReducedGradients> reduced = optimizer.Finish();
          if (!reduced.ok()) return reduced.status();
          // Step may release it at any moment.
          EXPECT_EQ(optimizer.GradientView(1), nullptr);
          s = optimizer.Step(*std::move(reduced), {});
          if (s.ok()) s = optimizer.Synchronize();
          if (!s.ok()) return s;
          EXPECT_EQ(optimizer.GradientView(1), nullptr);
#if defined(__SANITIZE_ADDRESS__)
          EXPECT_TRUE(__asan_address_is_poisoned(view));
#endif
        }
        EXPECT_EQ(optimizer.Statistics()->view_misses, 0);
        return absl::OkStatus();
      });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(ReleasedGradientsTest, ChangeNoBit) {
  for (const uint64_t seed : {2, 5, 8, 13}) {
    ShardedCase sharded = testing::RandomShardedCase(seed);
    sharded.steps = 3;
    sharded.options.release_gradients = true;
    const absl::StatusOr<UnshardedRun> want = RunUnsharded(sharded);
    ASSERT_THAT(want, IsOk());
    const ShardedRun run = RunSharded(sharded, GetParam());
    ASSERT_THAT(run.results, Each(IsOk()));
    EXPECT_TRUE(run.parameters == want->parameters) << "seed " << seed;
    for (const OptimizerStatistics& statistics : run.statistics) {
      EXPECT_EQ(statistics.gradient_bytes_held, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, ReleasedGradientsTest,
                         ::testing::ValuesIn(testing::BothRuntimes(4)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
