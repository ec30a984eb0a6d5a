// The exchange of host ids among several ranks, on both runtimes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/host_exchange.h"
#include "testing/rank_harness.h"
#include "testing/status_matchers.h"
#include "topology/host_map.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using ::muonshard::testing::BothRuntimes;
using ::muonshard::testing::GuardDeadline;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::RankContext;
using ::muonshard::testing::RunOnRanks;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RuntimeCaseName;
using ::muonshard::testing::StatusIs;
using ::testing::Each;

constexpr int32_t kRanks = 4;

class HostExchangeRanksTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  static std::vector<absl::Status> Run(
      const std::function<absl::Status(RankContext&)>& program) {
    return RunOnRanks({.runtime = GetParam(), .size = kRanks}, program).results;
  }

  // Every rank gives its own of `ids` and must learn them all.
  static absl::Status ExpectExchanged(RankContext& context,
                                      const std::vector<std::string>& ids) {
    const auto hosts = ExchangeHosts(
        *context.world, ids[static_cast<size_t>(ToInt(context.rank))],
        GuardDeadline(context.runtime));
    if (!hosts.ok()) return hosts.status();
    EXPECT_EQ(*hosts, HostMap::FromHostIds(ids));
    return absl::OkStatus();
  }
};

TEST_P(HostExchangeRanksTest, EveryRankLearnsTheHostsOfAll) {
  // Ids of several lengths; ranks of one host do not lie side by side.
  const std::vector<std::string> ids = {"a", std::string(254, 'b'), "a",
                                        "host c"};
  EXPECT_THAT(
      Run([&](RankContext& context) { return ExpectExchanged(context, ids); }),
      Each(IsOk()));
}

TEST_P(HostExchangeRanksTest, AnEmptyIdIsAHostLikeAnyOther) {
  const std::vector<std::string> ids = {"", "a", "", ""};
  EXPECT_THAT(
      Run([&](RankContext& context) { return ExpectExchanged(context, ids); }),
      Each(IsOk()));
}

TEST_P(HostExchangeRanksTest, AllRanksAreToldOfAnIdThatIsTooLong) {
  const auto results = Run([](RankContext& context) -> absl::Status {
    const bool wrong = context.rank == Rank{2};
    return ExchangeHosts(*context.world, std::string(wrong ? 255 : 254, 'x'),
                         GuardDeadline(context.runtime))
        .status();
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kInvalidArgument,
                                     "rank 2: want a host id")));
}

TEST_P(HostExchangeRanksTest, AFailureOfEitherGatherIsTheErrorOfAllRanks) {
  // Operation 0 of a rank is the making of its world.
  const std::vector<std::string> gathers = {"host id lengths", "host ids"};
  for (size_t i = 0; i < gathers.size(); ++i) {
    const auto run =
        RunOnRanks({.runtime = GetParam(),
                    .size = kRanks,
                    .plugin_options = absl::StrCat(
                        R"({"faults": "corrupt rank=1 at=)", 1 + i, R"("})")},
                   [](RankContext& context) {
                     return ExchangeHosts(*context.world, "host",
                                          GuardDeadline(context.runtime))
                         .status();
                   });
    EXPECT_THAT(run.results,
                Each(StatusIs(absl::StatusCode::kDataLoss, gathers[i])));
  }
}

TEST_P(HostExchangeRanksTest, ARankThatDoesNotComeIsADeadlineOnAllThatDid) {
  const auto results = Run([](RankContext& context) -> absl::Status {
    if (context.rank != Rank{3}) {
      EXPECT_THAT(
          ExchangeHosts(*context.world, "host",
                        context.runtime.Now() + absl::Milliseconds(20)),
          StatusIs(absl::StatusCode::kDeadlineExceeded, "host id lengths"));
      return context.store.Put(absl::StrCat("done/", ToInt(context.rank)), "");
    }
    // Stays, so that it is late and not lost.
    for (int32_t rank = 0; rank < kRanks - 1; ++rank) {
      const auto done = context.store.Get(absl::StrCat("done/", rank),
                                          GuardDeadline(context.runtime));
      if (!done.ok()) return done.status();
    }
    return context.world->Health();
  });
  for (size_t rank = 0; rank + 1 < results.size(); ++rank) {
    EXPECT_THAT(results[rank], IsOk());
  }
  EXPECT_THAT(results.back(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "missing rank 3"));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, HostExchangeRanksTest,
                         ::testing::ValuesIn(BothRuntimes(8)), RuntimeCaseName);

}  // namespace
}  // namespace muonshard
