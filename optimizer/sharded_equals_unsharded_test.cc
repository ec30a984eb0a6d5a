// The sharded optimizer against the unsharded one, bit for bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/rank_harness.h"
#include "testing/same_run.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::ExpectSameBits;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::RandomShardedCase;
using ::muonshard::testing::RunSharded;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RunUnsharded;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::ShardedRun;
using ::muonshard::testing::UnshardedRun;
using ::testing::Each;

struct RandomCase {
  uint64_t seed;
  RuntimeCase::Kind kind;
};

class RandomParametersTest : public ::testing::TestWithParam<RandomCase> {};

TEST_P(RandomParametersTest, ShardedEqualsUnshardedBitForBit) {
  ExpectSameBits(RandomShardedCase(GetParam().seed),
                 {.kind = GetParam().kind, .seed = GetParam().seed});
}

std::vector<RandomCase> RandomCases() {
  std::vector<RandomCase> cases;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    cases.push_back({seed, RuntimeCase::Kind::kThreads});
    cases.push_back({seed, RuntimeCase::Kind::kSim});
  }
  return cases;
}

std::string RandomCaseName(const ::testing::TestParamInfo<RandomCase>& info) {
  return absl::StrCat(
      info.param.kind == RuntimeCase::Kind::kSim ? "Sim" : "Threads",
      info.param.seed);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomParametersTest,
                         ::testing::ValuesIn(RandomCases()), RandomCaseName);

// A random case without roles, hosts, overflows and absent gradients.
ShardedCase OnThreeRanks(uint64_t seed) {
  ShardedCase sharded = RandomShardedCase(seed);
  sharded.mesh = "data=3";
  sharded.hosts.clear();
  for (ParameterSpec& spec : sharded.specs) {
    spec.roles.clear();
    spec.coordinates.clear();
    spec.blockwise = false;
  }
  sharded.overflows.clear();
  sharded.has_gradient = nullptr;
  return sharded;
}

// A case in which parameters are absent: on one rank, on all, or in one step.
ShardedCase AbsentCase(AbsentGradient absent) {
  ShardedCase sharded = OnThreeRanks(7);
  for (ParameterSpec& spec : sharded.specs) spec.absent_gradient = absent;
  return sharded;
}

class AbsentGradientTest : public ::testing::TestWithParam<RuntimeCase> {};

TEST_P(AbsentGradientTest, OnOneRankCountsAsZeroThere) {
  ShardedCase sharded = AbsentCase(AbsentGradient::kError);
  sharded.has_gradient = [](Rank rank, int32_t p, int64_t step) {
    return ToInt(rank) != (p + step) % 3;
  };
  ExpectSameBits(sharded, GetParam());
}

TEST_P(AbsentGradientTest, OnAllRanksCountsAsZerosWhenAskedTo) {
  ShardedCase sharded = AbsentCase(AbsentGradient::kZeros);
  sharded.has_gradient = [](Rank, int32_t p, int64_t step) {
    return (p + step) % 2 == 0;
  };
  ExpectSameBits(sharded, GetParam());
}

TEST_P(AbsentGradientTest, OnAllRanksLeavesTheParameterAloneWhenAskedTo) {
  ShardedCase sharded = AbsentCase(AbsentGradient::kSkip);
  sharded.has_gradient = [](Rank, int32_t p, int64_t step) {
    return (p + step) % 2 == 0;
  };
  ExpectSameBits(sharded, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Runtimes, AbsentGradientTest,
                         ::testing::ValuesIn(testing::BothRuntimes(3)),
                         testing::RuntimeCaseName);

class BucketSizeTest : public ::testing::TestWithParam<RuntimeCase> {};

TEST_P(BucketSizeTest, NoBucketSizeChangesAResult) {
  for (const int64_t bytes : {1, 300, 2000, 1 << 20}) {
    ShardedCase sharded = RandomShardedCase(11);
    sharded.options.plan.bucket_bytes_max = bytes;
    for (const bool overlap : {false, true}) {
      sharded.options.overlap = overlap;
      ExpectSameBits(sharded, GetParam());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, BucketSizeTest,
                         ::testing::ValuesIn(testing::BothRuntimes(2)),
                         testing::RuntimeCaseName);

TEST(SimulatedStepTest, TheSameSeedGivesTheSameTraceAndAllGiveTheSameBits) {
  const ShardedCase sharded = OnThreeRanks(3);
  const absl::StatusOr<UnshardedRun> want = RunUnsharded(sharded);
  ASSERT_THAT(want, IsOk());
  std::vector<uint64_t> hashes;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const RuntimeCase runtime{.kind = RuntimeCase::Kind::kSim, .seed = seed};
    const ShardedRun first = RunSharded(sharded, runtime);
    const ShardedRun second = RunSharded(sharded, runtime);
    ASSERT_THAT(first.results, Each(IsOk())) << "seed " << seed;
    ASSERT_EQ(first.trace_hash, second.trace_hash) << "seed " << seed;
    ASSERT_TRUE(first.parameters == want->parameters) << "seed " << seed;
    hashes.push_back(first.trace_hash);
  }
  // Seeds that all took the same way would prove nothing.
  std::sort(hashes.begin(), hashes.end());
  const auto different =
      std::unique(hashes.begin(), hashes.end()) - hashes.begin();
  EXPECT_GT(different, 190);
}

}  // namespace
}  // namespace muonshard
