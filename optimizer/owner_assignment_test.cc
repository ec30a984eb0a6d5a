#include "optimizer/owner_assignment.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muonshard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<OwnedItem> Items(const std::vector<int64_t>& costs) {
  std::vector<OwnedItem> items;
  for (const int64_t cost : costs) items.push_back({.cost = cost});
  return items;
}

std::vector<OwnerRank> Ranks(int32_t count, int32_t lanes) {
  std::vector<OwnerRank> ranks(static_cast<size_t>(count));
  for (int32_t r = 0; r < count; ++r) {
    ranks[static_cast<size_t>(r)].host = r / lanes;
  }
  return ranks;
}

std::vector<int32_t> Assign(const std::vector<OwnedItem>& items,
                            const std::vector<OwnerRank>& ranks,
                            int64_t memory_bytes_max = 0) {
  absl::StatusOr<std::vector<int32_t>> owners =
      AssignOwners(items, ranks, memory_bytes_max);
  EXPECT_TRUE(owners.ok()) << owners.status();
  return owners.ok() ? *std::move(owners)
                     : std::vector<int32_t>(items.size(), 0);
}

std::vector<int64_t> Loads(const std::vector<OwnedItem>& items,
                           const std::vector<OwnerRank>& ranks,
                           const std::vector<int32_t>& owners) {
  std::vector<int64_t> loads;
  for (const OwnerRank& rank : ranks) loads.push_back(rank.load);
  for (size_t i = 0; i < items.size(); ++i) {
    loads.at(static_cast<size_t>(owners[i])) += items[i].cost;
  }
  return loads;
}

int64_t Heaviest(const std::vector<OwnedItem>& items,
                 const std::vector<OwnerRank>& ranks) {
  const std::vector<int64_t> loads = Loads(items, ranks, Assign(items, ranks));
  return *std::max_element(loads.begin(), loads.end());
}

// The least heaviest load, by trying every assignment.
int64_t BestHeaviest(const std::vector<int64_t>& costs, size_t item,
                     std::vector<int64_t>& loads) {
  if (item == costs.size()) {
    return *std::max_element(loads.begin(), loads.end());
  }
  int64_t best = INT64_MAX;
  for (int64_t& load : loads) {
    load += costs[item];
    best = std::min(best, BestHeaviest(costs, item + 1, loads));
    load -= costs[item];
  }
  return best;
}

TEST(OwnerAssignmentTest, EqualItemsGoToRanksInTurn) {
  EXPECT_THAT(Assign(Items({5, 5, 5, 5, 5}), Ranks(3, 1)),
              ElementsAre(0, 1, 2, 0, 1));
}

TEST(OwnerAssignmentTest, TheLongestItemIsPlacedFirst) {
  EXPECT_THAT(Assign(Items({1, 2, 3}), Ranks(2, 1)), ElementsAre(1, 1, 0));
}

TEST(OwnerAssignmentTest, MoreRanksThanItemsLeavesRanksEmpty) {
  EXPECT_THAT(Assign(Items({7, 9}), Ranks(5, 1)), ElementsAre(1, 0));
}

TEST(OwnerAssignmentTest, NoItemsIsNoOwners) {
  EXPECT_TRUE(Assign({}, Ranks(4, 2)).empty());
}

TEST(OwnerAssignmentTest, AnItemWithoutCostStillHasAnOwner) {
  EXPECT_THAT(Assign(Items({0, 4}), Ranks(2, 1)), ElementsAre(1, 0));
}

TEST(OwnerAssignmentTest, MultifitCountsWhereItIsLighter) {
  // Longest first alone ends at 3 + 2 + 2.
  EXPECT_EQ(Heaviest(Items({3, 3, 2, 2, 2}), Ranks(2, 1)), 6);
}

TEST(OwnerAssignmentTest, NeighboursThatMultifitJoinsArePutApart) {
  // Only 3 + 3 and 2 + 2 + 2 reach 6.
  const std::vector<int32_t> owners =
      Assign(Items({3, 3, 3, 3, 2, 2, 2, 2, 2, 2}), Ranks(4, 1));
  EXPECT_NE(owners[0], owners[1]);
  EXPECT_NE(owners[1], owners[2]);
  EXPECT_NE(owners[2], owners[3]);
  for (size_t i = 5; i < owners.size(); ++i) {
    EXPECT_NE(owners[i - 1], owners[i]) << "item " << i;
  }
}

TEST(OwnerAssignmentTest, LoadThatRanksCarryCounts) {
  std::vector<OwnerRank> ranks = Ranks(3, 1);
  ranks[0].load = 10;
  ranks[2].load = 4;
  EXPECT_THAT(Assign(Items({5, 5}), ranks), ElementsAre(1, 2));
}

TEST(OwnerAssignmentTest, HostsGoBeforeLanes) {
  EXPECT_THAT(Assign(Items({5, 5}), Ranks(4, 2)), ElementsAre(0, 2));
  // One host of all, or one of each: the lowest rank.
  EXPECT_THAT(Assign(Items({5, 5}), Ranks(4, 4)), ElementsAre(0, 1));
  EXPECT_THAT(Assign(Items({5, 5}), Ranks(4, 1)), ElementsAre(0, 1));
}

TEST(OwnerAssignmentTest, AHostIsPreferredOnlyWithinTwoPercent) {
  // Rank 0 is lightest, but its host has the heavy rank 1. 1000 is within 2 %
  // of 980 + 100, 1100 is not.
  std::vector<OwnerRank> ranks = Ranks(4, 2);
  ranks[0].load = 980;
  ranks[1].load = 2000;
  ranks[2].load = 1000;
  ranks[3].load = 1000;
  EXPECT_THAT(Assign(Items({100}), ranks), ElementsAre(2));
  ranks[2].load = 1100;
  ranks[3].load = 1100;
  EXPECT_THAT(Assign(Items({100}), ranks), ElementsAre(0));
}

TEST(OwnerAssignmentTest, UnevenHostsAreComparedByLoadPerRank) {
  std::vector<OwnerRank> ranks(4);
  ranks[0].host = 0;
  for (size_t r = 1; r < 4; ++r) ranks[r].host = 1;
  // Host 0 carries 9 on one rank, host 1 carries 24 on three.
  ranks[0].load = 9;
  for (size_t r = 1; r < 4; ++r) ranks[r].load = 8;
  EXPECT_THAT(Assign(Items({1000}), ranks), ElementsAre(1));
}

TEST(OwnerAssignmentTest, HostNumbersNeedNotBeDense) {
  std::vector<OwnerRank> ranks = Ranks(4, 2);
  for (OwnerRank& rank : ranks) rank.host = 1000 - 300 * rank.host;
  EXPECT_THAT(Assign(Items({5, 5}), ranks), ElementsAre(0, 2));
}

// Where two kinds of matrix leave no better: under 58 a matrix of 38 is alone,
// on 24 ranks, and the other 23 take two of 20 each.
TEST(OwnerAssignmentTest, TwoKindsOnFortySevenRanksReachTheirBest) {
  std::vector<int64_t> costs(24, 38);
  costs.insert(costs.end(), 48, 20);
  EXPECT_EQ(Heaviest(Items(costs), Ranks(47, 1)), 58);
  EXPECT_EQ(Heaviest(Items(costs), Ranks(47, 8)), 58);
  EXPECT_EQ(WholeItemsLowerBound(costs, 47), 58);
  // (24 * 38 + 48 * 20) / 47 is 39.8; the 47th and the 48th are 20 + 20.
  EXPECT_EQ(HeaviestLoadLowerBound(costs, 47), 40);
}

TEST(OwnerAssignmentTest, LowerBoundIsTheLargestOfItsThreeTerms) {
  EXPECT_EQ(HeaviestLoadLowerBound({4, 4, 4, 4, 4}, 2), 10);
  EXPECT_EQ(HeaviestLoadLowerBound({1, 9, 1}, 2), 9);
  EXPECT_EQ(HeaviestLoadLowerBound({5, 5, 5}, 2), 10);
  EXPECT_EQ(HeaviestLoadLowerBound({5, 4}, 2), 5);
  EXPECT_EQ(HeaviestLoadLowerBound({}, 2), 0);
  EXPECT_EQ(WholeItemsLowerBound({}, 2), 0);
  EXPECT_EQ(WholeItemsLowerBound({0, 0, 3}, 2), 3);
}

// Longest first is within 4/3 - 1/(3 N) of the best (Graham, 1969), and what
// counts is never heavier.
TEST(OwnerAssignmentTest, SmallCasesLieBetweenTheBoundsAndGrahamsLimit) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const int32_t n = static_cast<int32_t>(2 + random() % 3);
    std::vector<int64_t> costs(1 + random() % 7);
    for (int64_t& cost : costs) {
      cost = static_cast<int64_t>(1 + random() % 40);
    }
    std::vector<int64_t> loads(static_cast<size_t>(n), 0);
    const int64_t best = BestHeaviest(costs, 0, loads);
    const int64_t simple = HeaviestLoadLowerBound(costs, n);
    const int64_t whole = WholeItemsLowerBound(costs, n);
    const int64_t got = Heaviest(Items(costs), Ranks(n, 1));
    EXPECT_LE(simple, whole) << "round " << round;
    EXPECT_LE(whole, best) << "round " << round;
    EXPECT_LE(best, got) << "round " << round;
    EXPECT_LE(got * 3 * n, best * (4 * n - 1)) << "round " << round;
  }
}

TEST(OwnerAssignmentTest, SameInputsGiveTheSameOwners) {
  std::mt19937_64 random(11);
  std::vector<int64_t> costs(500);
  for (int64_t& cost : costs) cost = static_cast<int64_t>(random() % 1000);
  EXPECT_EQ(Assign(Items(costs), Ranks(48, 8)),
            Assign(Items(costs), Ranks(48, 8)));
}

TEST(OwnerAssignmentTest, NoRankExceedsTheMemoryCap) {
  std::mt19937_64 random(13);
  std::vector<OwnedItem> items(200);
  int64_t memory_of_all = 0;
  for (OwnedItem& item : items) {
    item.cost = static_cast<int64_t>(1 + random() % 100);
    item.memory_bytes = static_cast<int64_t>(1 + random() % 100);
    memory_of_all += item.memory_bytes;
  }
  for (const int32_t lanes : {1, 4, 16}) {
    std::vector<OwnerRank> ranks = Ranks(16, lanes);
    ranks[3].memory_bytes = 500;
    const int64_t cap = (memory_of_all + 500) / 16 + 100;
    const std::vector<int32_t> owners = Assign(items, ranks, cap);
    for (size_t i = 0; i < items.size(); ++i) {
      ranks.at(static_cast<size_t>(owners[i])).memory_bytes +=
          items[i].memory_bytes;
    }
    for (const OwnerRank& rank : ranks) EXPECT_LE(rank.memory_bytes, cap);
  }
}

TEST(OwnerAssignmentTest, ATightCapIsKeptWhereMemoryAllowsIt) {
  // By cost alone the first two take a rank each, and the third has none.
  const std::vector<OwnedItem> items = {{.cost = 9, .memory_bytes = 5},
                                        {.cost = 8, .memory_bytes = 5},
                                        {.cost = 1, .memory_bytes = 10}};
  EXPECT_THAT(Assign(items, Ranks(2, 1), 10), ElementsAre(1, 1, 0));
}

TEST(OwnerAssignmentTest, AnItemWithoutRoomIsNamed) {
  const std::vector<OwnedItem> items = {
      {.cost = 1, .memory_bytes = 4, .name = "small"},
      {.cost = 1, .memory_bytes = 50, .name = "large"}};
  std::vector<OwnerRank> ranks = Ranks(2, 1);
  ranks[0].memory_bytes = 7;
  ranks[1].memory_bytes = 6;
  const absl::Status status = AssignOwners(items, ranks, 40).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("item 1 \"large\" of 50 bytes: group rank 1 has the "
                        "most room and already uses 6 of 40 bytes"));
}

TEST(OwnerAssignmentTest, BadArgumentsAreRefused) {
  const auto code = [](const std::vector<OwnedItem>& items,
                       const std::vector<OwnerRank>& ranks, int64_t cap) {
    return AssignOwners(items, ranks, cap).status().code();
  };
  constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code(Items({1}), {}, 0), kInvalid);
  EXPECT_EQ(code(Items({1}), Ranks(1, 1), -1), kInvalid);
  EXPECT_EQ(code(Items({-1}), Ranks(1, 1), 0), kInvalid);
  EXPECT_EQ(code({{.memory_bytes = -1}}, Ranks(1, 1), 0), kInvalid);
  EXPECT_EQ(code(Items({1}), {{.load = -1}}, 0), kInvalid);
  EXPECT_EQ(code(Items({1}), {{.memory_bytes = -1}}, 0), kInvalid);
}

}  // namespace
}  // namespace muonshard
