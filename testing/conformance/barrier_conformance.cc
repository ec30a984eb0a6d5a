// Barrier: nobody leaves before all have come.

#include <gmock/gmock.h>

#include <atomic>
#include <vector>

#include "testing/conformance/collective_conformance.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

TEST_P(CollectiveConformance, NobodyLeavesABarrierBeforeAllHaveCome) {
  constexpr int32_t kRounds = 5;
  std::atomic<int32_t> arrivals = 0;
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    for (int32_t round = 1; round <= kRounds; ++round) {
      ++arrivals;
      if (absl::Status s = Finish(world, world.Barrier()); !s.ok()) return s;
      EXPECT_GE(arrivals, round * size());
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
  EXPECT_EQ(arrivals, kRounds * size());
}

// What a rank wrote before a barrier, another one reads behind it.
TEST_P(CollectiveConformance, ABarrierMakesEarlierWritesVisible) {
  std::vector<int32_t> written(ranks(), -1);
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    written[IndexOf(world.rank())] = ToInt(world.rank());
    if (absl::Status s = Finish(world, world.Barrier()); !s.ok()) return s;
    for (int32_t r = 0; r < size(); ++r) {
      EXPECT_EQ(written[static_cast<size_t>(r)], r);
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

}  // namespace
}  // namespace muonshard::testing
