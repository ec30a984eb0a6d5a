// When new parameters come: before Step returns, or before a wait for them
// does, those of later parts while earlier ones are used.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collectives/runtime/runtime.h"
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
using ::muonshard::testing::ParameterBytes;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RunUnsharded;
using ::muonshard::testing::RunWithRigs;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::StatusIs;
using ::muonshard::testing::TakeRigStep;
using ::muonshard::testing::UnshardedRun;
using ::testing::Each;

// One step of SmallCase, each parameter in a bucket and a part of its own.
ShardedCase OneStepCase(GatherMode gather, bool overlap = true) {
  ShardedCase sharded = SmallCase();
  sharded.steps = 1;
  sharded.options.plan.bucket_bytes_max = 1;
  sharded.options.plan.buckets_per_part = 1;
  sharded.options.gather = gather;
  sharded.options.overlap = overlap;
  return sharded;
}

class GatherModeTest : public ::testing::TestWithParam<RuntimeCase> {};

TEST_P(GatherModeTest, AnEagerStepReturnsWithNewParameters) {
  for (const bool overlap : {false, true}) {
    const ShardedCase sharded = OneStepCase(GatherMode::kEager, overlap);
    const absl::StatusOr<UnshardedRun> want = RunUnsharded(sharded);
    ASSERT_THAT(want, IsOk());
    const auto results =
        RunWithRigs(sharded, {.runtime = GetParam()},
                    [&](Collective& world, OptimizerRig& rig) {
                      absl::Status s =
                          TakeRigStep(sharded, world.rank(), 1, *rig.optimizer);
                      EXPECT_TRUE(rig.parameters == want->parameters[0]);
                      return s;
                    });
    EXPECT_THAT(results, Each(IsOk()));
  }
}

TEST_P(GatherModeTest, AnEagerStepReturnsItsOwnError) {
  const ShardedCase sharded = OneStepCase(GatherMode::kEager);
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam()},
      [&](Collective& world, OptimizerRig& rig) {
        absl::Status s = rig.optimizer->BeginStep(1);
        if (s.ok()) {
          s = CheckInAll(sharded, world.rank(), 1, *rig.optimizer, 0);
        }
        if (!s.ok()) return s;
        EXPECT_THAT(FinishAndStep(*rig.optimizer),
                    StatusIs(absl::StatusCode::kFailedPrecondition, "\"qkv\""));
        return absl::OkStatus();
      });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(GatherModeTest, AfterALazyStepEachWaitWritesItsOwnBucketAlone) {
  for (const bool overlap : {false, true}) {
    const ShardedCase sharded = OneStepCase(GatherMode::kLazy, overlap);
    const absl::StatusOr<UnshardedRun> want = RunUnsharded(sharded);
    ASSERT_THAT(want, IsOk());
    const auto results = RunWithRigs(
        sharded, {.runtime = GetParam()},
        [&](Collective& world, OptimizerRig& rig) {
          ShardedOptimizer& optimizer = *rig.optimizer;
          std::vector<ParameterBytes> expected = rig.parameters;
          absl::Status s = TakeRigStep(sharded, world.rank(), 1, optimizer);
          if (s.ok()) s = optimizer.Outcome().status();
          if (!s.ok()) return s;
          EXPECT_TRUE(rig.parameters == expected);
          // By index, by name, and what is left.
          EXPECT_THAT(optimizer.WaitForParameters(1), IsOk());
          expected[1] = want->parameters[0][1];
          EXPECT_TRUE(rig.parameters == expected);
          EXPECT_THAT(optimizer.WaitForParameters("bias"), IsOk());
          expected[2] = want->parameters[0][2];
          EXPECT_TRUE(rig.parameters == expected);
          EXPECT_THAT(optimizer.WaitForParameters(), IsOk());
          EXPECT_TRUE(rig.parameters == want->parameters[0]);
          EXPECT_THAT(
              optimizer.WaitForParameters("other"),
              StatusIs(absl::StatusCode::kNotFound, "parameter \"other\""));
          return absl::OkStatus();
        });
    EXPECT_THAT(results, Each(IsOk()));
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, GatherModeTest,
                         ::testing::ValuesIn(testing::BothRuntimes(5)),
                         testing::RuntimeCaseName);

// The buckets whose gathers have ended on one rank.
using EndedGathers = std::set<int32_t>;

TEST(PrefetchTest, LaterGathersRunWhileAnEarlierParameterIsUsable) {
  const ShardedCase sharded = OneStepCase(GatherMode::kLazy);
  int32_t in_flight_count = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<EndedGathers> ended(3);
    const auto run = testing::RunOnRanks(
        {.runtime = {.kind = RuntimeCase::Kind::kSim, .seed = seed},
         .size = 3,
         // So that gathers are the affair of tasks, and not of the call that
         // makes the last rank arrive.
         .plugin_options = R"({"small_bytes": 0})"},
        [&](Collective& world) {
          EndedGathers& own = ended[static_cast<size_t>(ToInt(world.rank()))];
          OptimizerEnvironment environment;
          environment.trace = [&own](const StepSpan& span) {
            if (span.kind == SpanKind::kGather) own.insert(span.index);
          };
          auto rig = MakeRig(sharded, world, std::move(environment));
          if (!rig.ok()) return rig.status();
          const ParameterBytes before = rig->parameters[0];
          absl::Status s =
              TakeRigStep(sharded, world.rank(), 1, *rig->optimizer);
          if (s.ok()) s = rig->optimizer->WaitForParameters(0);
          if (!s.ok()) return s;
          // "qkv" is usable; its bucket is gathered first, and bucket 0 last.
          EXPECT_TRUE(rig->parameters[0] != before);
          if (own.count(0) == 0) ++in_flight_count;
          // The others come without anyone who waits for them.
          for (int32_t i = 0; i < 100000 && own.size() < 3; ++i) {
            world.runtime().Yield();
          }
          EXPECT_EQ(own.size(), 3u);
          return rig->optimizer->Synchronize();
        });
    EXPECT_THAT(run.results, Each(IsOk()));
  }
  // On most of the 60 ranks; one that waited for everything would give 0.
  EXPECT_GT(in_flight_count, 20);
}

}  // namespace
}  // namespace muonshard
