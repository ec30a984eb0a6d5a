// The memory that a caller gives its parameters.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "optimizer/sharded_optimizer.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::RankRun;
using ::muonshard::testing::RunOnRanks;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::StatusIs;
using ::testing::Each;

class ParameterBindingTest : public ::testing::TestWithParam<RuntimeCase> {};

TEST_P(ParameterBindingTest, MemoryIsBoundOnceAndForEveryParameter) {
  const ShardedCase sharded = SmallCase();
  const RankRun run =
      RunOnRanks({.runtime = GetParam(), .size = 3}, [&](Collective& world) {
        auto optimizer = ShardedOptimizer::Create(
            sharded.specs, *Mesh::Parse(sharded.mesh), world, sharded.options);
        if (!optimizer.ok()) return optimizer.status();
        std::vector<float> memory(96);
        EXPECT_THAT((*optimizer)->BindParameter(3, memory.data()),
                    StatusIs(absl::StatusCode::kInvalidArgument, "[0, 3)"));
        EXPECT_THAT((*optimizer)->BindParameter(0, nullptr),
                    StatusIs(absl::StatusCode::kInvalidArgument, "null"));
        EXPECT_THAT((*optimizer)->BindParameter(0, memory.data()), IsOk());
        EXPECT_THAT((*optimizer)->BindParameter(0, memory.data()),
                    StatusIs(absl::StatusCode::kFailedPrecondition, "\"qkv\""));
        EXPECT_THAT(
            (*optimizer)->BeginStep(1),
            StatusIs(absl::StatusCode::kFailedPrecondition, "\"proj\""));
        EXPECT_THAT((*optimizer)->WaitForParameters(7),
                    StatusIs(absl::StatusCode::kInvalidArgument, "[0, 3)"));
        EXPECT_EQ((*optimizer)->GradientView(7), nullptr);
        return absl::OkStatus();
      });
  EXPECT_THAT(run.results, Each(IsOk()));
}

TEST_P(ParameterBindingTest, MemoryThatTwoParametersClaimIsRefused) {
  const ShardedCase sharded = SmallCase();
  const RankRun run =
      RunOnRanks({.runtime = GetParam(), .size = 3}, [&](Collective& world) {
        auto optimizer = ShardedOptimizer::Create(
            sharded.specs, *Mesh::Parse(sharded.mesh), world, sharded.options);
        if (!optimizer.ok()) return optimizer.status();
        // "proj" has 32 elements and lies in the middle.
        std::vector<float> memory(32 + 96 + 32 + 300);
        float* proj = memory.data() + 96;
        EXPECT_THAT((*optimizer)->BindParameter(1, proj), IsOk());
        for (float* qkv : {proj - 95, proj, proj + 31}) {
          EXPECT_THAT(
              (*optimizer)->BindParameter(0, qkv),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "parameter \"qkv\": want memory of its own, got some "
                       "that parameter \"proj\" is bound to"));
        }
        // Neighbours are no overlap, and a refused memory is not bound.
        EXPECT_THAT((*optimizer)->BindParameter(0, proj - 96), IsOk());
        return (*optimizer)->BindParameter(2, proj + 32);
      });
  EXPECT_THAT(run.results, Each(IsOk()));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, ParameterBindingTest,
                         ::testing::ValuesIn(testing::BothRuntimes(3)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
