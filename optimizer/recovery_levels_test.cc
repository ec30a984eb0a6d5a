// Groups of two levels that break, in any of their groups, on ranks of any
// host, and go on with Resync.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "testing/rank_harness.h"
#include "testing/recovery/fault_sweep.h"
#include "testing/sharded_case.h"
#include "testing/two_level_case.h"

namespace muonshard {
namespace {

using ::muonshard::testing::ExpectUndisturbed;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::TwoLevelCase;
using ::testing::Contains;
using ::testing::HasSubstr;

ShardedCase RecoveringLevels() {
  ShardedCase sharded = TwoLevelCase();
  sharded.clip_norm = 0.5;
  sharded.recovers = true;
  // Of threads a part is waited for; virtual time costs nothing.
  sharded.options.timeout = absl::Seconds(3);
  return sharded;
}

struct LevelCase {
  std::string kind;
  int32_t rank;
  RuntimeCase runtime;
};

class RecoveryLevelsTest : public ::testing::TestWithParam<LevelCase> {};

TEST_P(RecoveryLevelsTest, AFaultAtAnyOperation) {
  const LevelCase& at = GetParam();
  const std::vector<std::string> told = ExpectUndisturbed(
      RecoveringLevels(), at.runtime, {.kind = at.kind, .rank = at.rank});
  for (const char* level : {"/host level", "/lane level"}) {
    EXPECT_THAT(told, Contains(HasSubstr(level)));
  }
}

std::vector<LevelCase> Cases() {
  const RuntimeCase threads = {.kind = RuntimeCase::Kind::kThreads};
  const auto simulated = [](uint64_t seed) {
    return RuntimeCase{.kind = RuntimeCase::Kind::kSim, .seed = seed};
  };
  // No group of a level has as many ranks, so that these are numbers of the
  // world.
  return {{"abort", 5, threads},        {"abort", 4, simulated(1)},
          {"abort", 7, simulated(2)},   {"memory", 5, simulated(3)},
          {"memory", 6, simulated(4)},  {"corrupt", 4, simulated(5)},
          {"corrupt", 7, simulated(6)}, {"lose", 5, simulated(7)},
          {"lose", 6, simulated(8)}};
}

std::string NameOf(const ::testing::TestParamInfo<LevelCase>& of) {
  return of.param.kind + "OfRank" + std::to_string(of.param.rank) +
         ToString(of.param.runtime);
}

INSTANTIATE_TEST_SUITE_P(Faults, RecoveryLevelsTest,
                         ::testing::ValuesIn(Cases()), NameOf);

}  // namespace
}  // namespace muonshard
