#include "tools/trainer/rank_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/plugin.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/store.h"
#include "testing/status_matchers.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr absl::Duration kPatience = absl::Minutes(1);
constexpr int32_t kRanks = 3;

// What each rank's `program` ended with; the store of a rank is that of the
// exchange, not of the group.
std::vector<absl::Status> RunExchanges(
    Runtime& runtime, const std::vector<Store*>& stores,
    const std::function<absl::Status(Rank, RankExchange&)>& program) {
  const auto plugin =
      Plugin::Open(PluginSearchFromEnvironment("loopback", ""), runtime);
  if (!plugin.ok()) return {plugin.status()};
  const std::unique_ptr<Store> meeting = NewInProcessStore(runtime);
  return RunRanks(runtime, kRanks, [&](Rank rank) -> absl::Status {
    const auto world =
        (*plugin)->NewGroup({.rank = rank,
                             .size = kRanks,
                             .deadline = runtime.Now() + kPatience,
                             .store = meeting.get()});
    if (!world.ok()) return world.status();
    const auto exchange = RankExchange::Create(
        **world, *stores[static_cast<size_t>(ToInt(rank))], kPatience);
    if (!exchange.ok()) return exchange.status();
    return program(rank, **exchange);
  });
}

TEST(RankExchangeTest, EveryRankHasWhatEachGave) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const std::unique_ptr<Store> store = NewInProcessStore(*runtime);
  const std::vector<absl::Status> ended = RunExchanges(
      *runtime, {store.get(), store.get(), store.get()},
      [](Rank rank, RankExchange& exchange) -> absl::Status {
        // Of different sizes, and none.
        const auto first =
            exchange.Gather(std::string(static_cast<size_t>(ToInt(rank)), 'x'));
        if (!first.ok()) return first.status();
        EXPECT_THAT(*first, ElementsAre("", "x", "xx"));
        const auto second = exchange.Gather(absl::StrCat("of ", ToInt(rank)));
        if (!second.ok()) return second.status();
        EXPECT_THAT(*second, ElementsAre("of 0", "of 1", "of 2"));
        return exchange.CheckGathered();
      });
  EXPECT_THAT(ended, Each(IsOk()));
}

// Rank 2 hears in its own store that the others sent something else.
TEST(RankExchangeTest, WhatChangedOnTheWayIsFound) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const std::unique_ptr<Store> store = NewInProcessStore(*runtime);
  const std::unique_ptr<Store> other = NewInProcessStore(*runtime);
  for (const char* key : {"train/exchange-sent/0", "train/exchange-sent/1"}) {
    ASSERT_THAT(other->Put(key, "another hash"), IsOk());
  }
  const std::vector<absl::Status> ended = RunExchanges(
      *runtime, {store.get(), store.get(), other.get()},
      [](Rank rank, RankExchange& exchange) -> absl::Status {
        const auto gathered = exchange.Gather("gift");
        if (!gathered.ok()) return gathered.status();
        return rank == Rank{2} ? exchange.CheckGathered() : absl::OkStatus();
      });
  ASSERT_EQ(ended.size(), size_t{kRanks});
  EXPECT_THAT(ended[2], StatusIs(absl::StatusCode::kDataLoss,
                                 "what rank 0 gave for all ranks was changed"));
}

TEST(RankExchangeTest, RanksThatDoNotComeAreNamed) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const std::unique_ptr<Store> store = NewInProcessStore(*runtime);
  ASSERT_THAT(store->Put("train/host/2", "here"), IsOk());
  EXPECT_THAT(
      ExchangeThroughStore(*store, "host", Rank{0}, 5, "there", runtime->Now()),
      StatusIs(absl::StatusCode::kDeadlineExceeded, "missing ranks 1, 3, 4"));
}

}  // namespace
}  // namespace muonshard
