// A fault while the world and the groups of an optimizer are made: every rank
// is told whose it was, and nothing is left.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"
#include "testing/status_matchers.h"
#include "testing/two_level_case.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::RunSharded;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::ShardedRun;
using ::muonshard::testing::TwoLevelCase;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// No group of a level has as many ranks, so it is a number of the world.
constexpr int32_t kRank = 5;

class ConstructionFaultTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ConstructionFaultTest, IsToldToAllRanksAtAnyOperation) {
  ShardedCase sharded = TwoLevelCase();
  sharded.steps = 1;
  const RuntimeCase runtime = {.kind = RuntimeCase::Kind::kSim, .seed = 1};
  const ShardedRun whole = RunSharded(sharded, runtime);
  ASSERT_THAT(whole.results, Each(IsOk()));
  const int64_t steps_begin = whole.operations[kRank].begin;
  // The world, hosts, agreement, and a split for each kind and level.
  ASSERT_GE(steps_begin, 7);
  for (int64_t at = 0; at < steps_begin; ++at) {
    const std::string fault = absl::StrCat(GetParam(), "=", at);
    SCOPED_TRACE(fault);
    const ShardedRun run = RunSharded(
        sharded, runtime,
        {.plugin_options = absl::StrCat("{\"faults\": \"", fault, "\"}")});
    EXPECT_THAT(run.plugin_report,
                HasSubstr(absl::StrCat("\"", fault, "\": reached")));
    for (const absl::Status& result : run.results) {
      EXPECT_THAT(result, Not(IsOk()));
      EXPECT_THAT(
          std::string(result.message()),
          ContainsRegex(absl::StrCat("(ranks? |, |[(])", kRank, "([^0-9]|$)")));
    }
    EXPECT_THAT(run.plugin_report, HasSubstr("live works: 0\n"));
    EXPECT_THAT(run.plugin_report, HasSubstr("live communicators: 0\n"));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ConstructionFaultTest,
                         ::testing::Values("memory rank=5 at", "lose rank=5 at",
                                           "corrupt rank=5 at",
                                           "die rank=5 before"));

}  // namespace
}  // namespace muonshard
