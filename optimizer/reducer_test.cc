// What the reducer refuses, and what becomes of a step whose reduction cannot
// be launched. Results are compared by the tests of ShardedOptimizer.

#include "optimizer/reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "testing/rank_harness.h"
#include "testing/status_matchers.h"
#include "topology/host_map.h"
#include "topology/mesh.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kCount = 1000;

// Two vectors, each in a bucket of its own, over four ranks of which each two
// are replicas.
Plan MakePlan() {
  OptimizerOptions options;
  options.plan.bucket_bytes_max = kCount * int64_t{sizeof(float)};
  ParameterSpec first;
  first.name = "first";
  first.shape = {kCount};
  first.roles = {{"copies", AxisRole::kReplicate}};
  ParameterSpec second = first;
  second.name = "second";
  absl::StatusOr<Plan> plan =
      Plan::Create({first, second}, *Mesh::Parse("copies=2,data=2"),
                   HostMap::FromHostIds({"a", "a", "a", "a"}), options);
  EXPECT_THAT(plan, IsOk());
  EXPECT_EQ(plan->buckets.size(), 2);
  return *std::move(plan);
}

using Program = std::function<absl::Status(Reducer&, const GroupSet&, Stream&)>;

std::vector<absl::Status> WithReducer(const Program& program) {
  const Plan plan = MakePlan();
  return testing::RunOnRanks(
             {.size = 4},
             [&](Collective& world) -> absl::Status {
               Runtime& runtime = world.runtime();
               const absl::Time deadline = testing::GuardDeadline(runtime);
               const absl::StatusOr<GroupSet> groups =
                   GroupSet::Create(plan, world, {}, deadline);
               if (!groups.ok()) return groups.status();
               const OptimizerOptions options;
               BucketBuffers buffers(plan, world.rank());
               SpanRecorder spans(runtime, nullptr);
               Stream compute(runtime, "compute");
               Reducer reducer(runtime, options, buffers, *groups, compute,
                               spans);
               const absl::Status result = program(reducer, *groups, compute);
               // Operations hold the buffers until they end.
               for (const Work& work : reducer.works()) {
                 (void)work.Wait(deadline);
               }
               const absl::Status end = compute.Synchronize(deadline);
               return result.ok() ? end : result;
             })
      .results;
}

absl::Status CheckInAll(Reducer& reducer) {
  const std::vector<float> gradient(kCount, 1);
  for (const int32_t parameter : {0, 1}) {
    const absl::Status s = reducer.GradientReady(parameter, gradient.data(),
                                                 kCount, DataType::kF32);
    if (!s.ok()) return s;
  }
  return reducer.Finish();
}

TEST(ReducerTest, AGradientOfNoParameterIsRefusedAndIsNoFailureOfTheStep) {
  const auto results =
      WithReducer([](Reducer& reducer, const GroupSet&, Stream&) {
        reducer.Begin(1, 1);
        const std::vector<float> gradient(kCount, 1);
        for (const int32_t parameter : {-1, 2}) {
          EXPECT_THAT(
              reducer.GradientReady(parameter, gradient.data(), kCount,
                                    DataType::kF32),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "gradient of parameter " + std::to_string(parameter) +
                           ": want an index in [0, 2)"));
        }
        const absl::Status s = CheckInAll(reducer);
        EXPECT_FALSE(reducer.failure().has_value());
        return s;
      });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST(ReducerTest, FinishEndsAStepOnceAndOnlyOneThatBegan) {
  const auto results =
      WithReducer([](Reducer& reducer, const GroupSet&, Stream&) {
        const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition,
                                      "Finish: want BeginStep before it");
        EXPECT_THAT(reducer.Finish(), refused);
        reducer.Begin(1, 1);
        const absl::Status s = CheckInAll(reducer);
        EXPECT_THAT(reducer.Finish(), refused);
        return s;
      });
  EXPECT_THAT(results, Each(IsOk()));
}

// The first level of a bucket may be under way when the second is refused.
TEST(ReducerTest, ALevelThatCannotBeLaunchedFailsTheStepWithTheFirstBucket) {
  for (const bool of_replicas : {false, true}) {
    const auto results =
        WithReducer([of_replicas](Reducer& reducer, const GroupSet& groups,
                                  Stream& compute) {
          reducer.Begin(1, 1);
          (of_replicas ? groups.replicas(0) : groups.shards(0))
              .Abort(absl::UnavailableError("link down"));
          const absl::Status s = CheckInAll(reducer);
          EXPECT_THAT(compute.Synchronize(absl::InfiniteFuture()), IsOk());
          const ReductionSummary& summary = reducer.summary();
          EXPECT_FALSE(summary.failure.ok());
          EXPECT_THAT(std::string(summary.failure.message()),
                      HasSubstr("link down"));
          EXPECT_EQ(summary.failed_bucket, 0);
          if (!of_replicas) {
            EXPECT_THAT(reducer.works(), IsEmpty());
          }
          return s;
        });
    EXPECT_THAT(results, Each(IsOk()));
  }
}

}  // namespace
}  // namespace muonshard
