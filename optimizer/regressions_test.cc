// What went wrong in sharded Muon elsewhere, and the test that fails if it can
// happen here:
//
//   the scaler looked for buffers    step_regression_test
//     that one optimizer did not       OnlyFinishMakesReducedGradients...
//     have                           here: TheScalerWorksForEveryKindOf...
//   with group call on, gradients    here: WithHierarchyAndScalerEvery...
//     were never reduced before the
//     scaler
//   hooks fired twice under          step_regression_test HooksThatFire...
//     pipeline parallelism           pipeline_test AHookThatFiresOnceMore...
//   groups from a formula on rank    plan_hierarchy_test
//     numbers broke for axis           EveryOrderOfAxesHasTheLevels...
//     orders, for ep no multiple     here: EveryOrderOfAxes...,
//     of the host, for hosts of one    TwelveExpertRanks...,
//     card                             HostsOfOneRank...
//   a feature that was off asked     plan_hierarchy_test OffAsksNoHost,
//     for the number of GPUs         group_set_test WithHierarchyOffNo...
//                                    here: HierarchyThatIsOff...
//   an overflow poisoned momentum    scaled_step_test AnF16Overflow...,
//                                    step_regression_test AnOverflowOnOne...
//   a parameter without gradient     step_regression_test
//     left peers hanging               AParameterWithoutAGradient...
//   a stage clipped with another     step_regression_test, scaled_step_test
//     norm                             EveryPipelineStageClipsWith...
//
// testing/planted has each of these as a patch, which muonshard explore finds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "testing/rank_harness.h"
#include "testing/same_run.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using ::muonshard::testing::ExpectSameBits;
using ::muonshard::testing::ExpectSameRun;
using ::muonshard::testing::FirstValuesOf;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::RunSharded;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RunUnsharded;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::ShardedRun;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::StatusIs;
using ::muonshard::testing::UnshardedRun;
using ::testing::Each;

// SmallCase on `mesh`, with f16 gradients and a scaler, one letter of `hosts`
// for each rank.
ShardedCase ScaledCaseOn(const std::string& mesh, const std::string& hosts,
                         Hierarchy hierarchy) {
  ShardedCase sharded = SmallCase();
  sharded.mesh = mesh;
  for (const char host : hosts) sharded.hosts.emplace_back(1, host);
  for (ParameterSpec& spec : sharded.specs) {
    spec.gradient_dtype = DataType::kF16;
  }
  sharded.options.plan.hierarchy = hierarchy;
  sharded.scaler = GradScalerOptions{.init_scale = 256, .growth_interval = 1};
  sharded.clip_norm = 0.5;
  sharded.steps = 3;
  return sharded;
}

class RegressionsTest : public ::testing::TestWithParam<RuntimeCase> {};

TEST_P(RegressionsTest, TheScalerWorksForEveryKindOfParameterAlone) {
  for (size_t only = 0; only < 3; ++only) {
    ShardedCase sharded = ScaledCaseOn("data=4", "AABB", Hierarchy::kOn);
    sharded.specs = {sharded.specs[only]};
    sharded.overflows = {{.rank = Rank(2), .parameter = 0, .step = 2}};
    ExpectSameBits(sharded, GetParam());
  }
}

TEST_P(RegressionsTest, WithHierarchyAndScalerEveryGradientIsReduced) {
  ShardedCase sharded = ScaledCaseOn("data=4", "AABB", Hierarchy::kOn);
  for (ParameterSpec& spec : sharded.specs) {
    spec.absent_gradient = AbsentGradient::kSkip;
  }
  for (int32_t p = 0; p < 3; ++p) {
    for (int32_t rank = 0; rank < 4; ++rank) {
      sharded.options.overlap = rank % 2 == 0;
      // What only one rank has must come to all.
      sharded.has_gradient = [rank, p](Rank at, int32_t of, int64_t) {
        return ToInt(at) == rank && of == p;
      };
      const ShardedRun run = RunSharded(sharded, GetParam());
      const absl::StatusOr<UnshardedRun> want = RunUnsharded(sharded);
      ASSERT_THAT(want, IsOk());
      ASSERT_THAT(run.results, Each(IsOk()));
      ExpectSameRun(sharded, run, *want);
      const Mesh mesh = *Mesh::Parse(sharded.mesh);
      for (size_t r = 0; r < 4; ++r) {
        EXPECT_GT(run.outcomes[r][0].gradient_norm, 0);
        EXPECT_FALSE(run.parameters[r][static_cast<size_t>(p)] ==
                     FirstValuesOf(sharded, mesh, Rank(0), p));
      }
    }
  }
}

TEST_P(RegressionsTest, EveryOrderOfAxesReducesInTheGroupsOfItsHosts) {
  std::vector<std::string> axes = {"ep=2", "moe_sharding=2", "pp=2"};
  do {
    ShardedCase sharded =
        ScaledCaseOn(absl::StrJoin(axes, ","), "AABBAABB", Hierarchy::kAuto);
    for (ParameterSpec& spec : sharded.specs) {
      spec.roles["pp"] = AxisRole::kDistinct;
    }
    sharded.specs[1].roles["ep"] = AxisRole::kDistinct;
    ExpectSameBits(sharded, GetParam());
  } while (std::next_permutation(axes.begin(), axes.end()));
}

TEST_P(RegressionsTest, TwelveExpertRanksOnHostsOfEightWorkOrSayWhyNot) {
  const std::string eight(8, 'A');
  ShardedCase sharded = ScaledCaseOn(
      "moe_sharding=2,ep=12",
      absl::StrCat(eight, std::string(8, 'B'), std::string(8, 'C')),
      Hierarchy::kOn);
  ExpectSameBits(sharded, GetParam());
  sharded = ScaledCaseOn("ep=12", absl::StrCat(eight, "BBBB"), Hierarchy::kOn);
  EXPECT_THAT(RunSharded(sharded, GetParam()).results,
              Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                            "host \"A\" has 8 ranks of the group, host \"B\" "
                            "has 4")));
}

TEST_P(RegressionsTest, HostsOfOneRankAreFlat) {
  ExpectSameBits(ScaledCaseOn("data=4", "ABCD", Hierarchy::kAuto), GetParam());
  EXPECT_THAT(
      RunSharded(ScaledCaseOn("data=4", "ABCD", Hierarchy::kOn), GetParam())
          .results,
      Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                    "no group has two ranks or more on each of two hosts")));
}

TEST_P(RegressionsTest, HierarchyThatIsOffMindsNoHosts) {
  ExpectSameBits(ScaledCaseOn("data=5", "AAABB", Hierarchy::kOff), GetParam());
  // Could reduce in two levels, to other bits.
  ExpectSameBits(ScaledCaseOn("data=4", "AABB", Hierarchy::kOff), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Runtimes, RegressionsTest,
                         ::testing::ValuesIn(testing::BothRuntimes(2)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
