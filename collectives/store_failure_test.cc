// A store that fails, at any call of any rank, while groups are made: every
// rank is told, none hangs, and a group that is made then works.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/host_exchange.h"
#include "collectives/plugin.h"
#include "collectives/testing/failing_store.h"
#include "collectives/work.h"
#include "testing/rank_harness.h"
#include "testing/status_matchers.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using ::muonshard::testing::FailingStore;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::RankContext;
using ::muonshard::testing::RankRun;
using ::muonshard::testing::RunOnRanks;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::StatusIs;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int32_t kRanks = 3;
constexpr absl::Duration kTimeout = absl::Seconds(5);

// Makes a group, learns the hosts and splits it in two.
absl::Status MakeGroups(RankContext& context, const std::string& name,
                        Store& store, absl::Duration timeout) {
  const absl::Time deadline = context.runtime.Now() + timeout;
  absl::StatusOr<std::unique_ptr<Collective>> group =
      context.plugin.NewGroup({.rank = context.rank,
                               .size = kRanks,
                               .name = name,
                               .deadline = deadline,
                               .store = &store});
  if (!group.ok()) return group.status();
  const auto hosts = ExchangeHosts(**group, "host", deadline);
  if (!hosts.ok()) return hosts.status();
  const absl::StatusOr<std::unique_ptr<Collective>> part = (*group)->Split(
      ToInt(context.rank) % 2, 0, absl::StrCat(name, "/part"), deadline);
  if (!part.ok()) return part.status();
  // Nobody leaves before all are done.
  return AwaitEnd((*group)->Barrier({.deadline = deadline}));
}

struct Told {
  std::vector<absl::Status> first;  // By rank, of the groups that fail.
  std::vector<int64_t> calls;       // Of the store.
};

class StoreFailureTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  // The store refuses one call of one rank. Then groups are made with a store
  // that works.
  static Told Run(int32_t rank, int64_t call, bool loses) {
    Told told = {.first = std::vector<absl::Status>(kRanks),
                 .calls = std::vector<int64_t>(kRanks)};
    const RankRun run = RunOnRanks(
        {.runtime = {.kind = RuntimeCase::Kind::kSim, .seed = GetParam()},
         .size = kRanks},
        [&](RankContext& context) {
          const auto r = static_cast<size_t>(ToInt(context.rank));
          const bool fails = ToInt(context.rank) == rank;
          FailingStore store(context.store, fails ? call : FailingStore::kNever,
                             loses);
          told.first[r] = MakeGroups(context, "first", store, kTimeout);
          told.calls[r] = store.call_count();
          // Some come there at once, others at their deadline.
          return MakeGroups(context, "second", context.store, 2 * kTimeout);
        });
    EXPECT_THAT(run.results, Each(IsOk()));
    EXPECT_LE(run.simulated, kTimeout);
    EXPECT_THAT(run.plugin_report, HasSubstr("live communicators: 0\n"));
    return told;
  }
};

// `rank` or a key in the store.
auto Names(int32_t rank) {
  return AnyOf(HasSubstr(absl::StrCat("missing rank ", rank)),
               HasSubstr(absl::StrCat("rank ", rank, " did not share")),
               HasSubstr(absl::StrCat("rank ", rank, " left the group")),
               HasSubstr("key \"first/"));
}

TEST_P(StoreFailureTest, IsToldToAllRanksAtEachCall) {
  const Told whole = Run(0, FailingStore::kNever, /*loses=*/false);
  ASSERT_THAT(whole.first, Each(IsOk()));
  int without_effect = 0;
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    const int64_t calls = whole.calls[static_cast<size_t>(rank)];
    ASSERT_GE(calls, 6);
    for (int64_t call = 0; call < calls; ++call) {
      SCOPED_TRACE(absl::StrCat("rank ", rank, ", call ", call));
      const Told told = Run(rank, call, /*loses=*/false);
      // Where all had come when the store failed, no verdict is needed.
      if (told.first[static_cast<size_t>(rank)].ok()) {
        EXPECT_THAT(told.first, Each(IsOk()));
        ++without_effect;
        continue;
      }
      EXPECT_THAT(told.first[static_cast<size_t>(rank)],
                  StatusIs(absl::StatusCode::kUnavailable, "of key \"first/"));
      for (const absl::Status& s : told.first) {
        EXPECT_THAT(s, Not(IsOk()));
        EXPECT_THAT(std::string(s.message()), Names(rank));
      }
    }
  }
  // One rank is the last to come and gives the verdict.
  EXPECT_LE(without_effect, kRanks - 1);
}

TEST_P(StoreFailureTest, AKeyThatNeverComesIsADeadlineNotAHang) {
  int failed = 0;
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    for (int64_t call = 0; call < 8; ++call) {
      SCOPED_TRACE(absl::StrCat("rank ", rank, ", call ", call));
      const Told told = Run(rank, call, /*loses=*/true);
      for (const absl::Status& s : told.first) {
        if (s.ok()) continue;
        ++failed;
        EXPECT_THAT(s, AnyOf(StatusIs(absl::StatusCode::kDeadlineExceeded),
                             StatusIs(absl::StatusCode::kAborted)));
      }
    }
  }
  // The token, the verdict, and what ranks share, at least.
  EXPECT_GE(failed, 4);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StoreFailureTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace muonshard
