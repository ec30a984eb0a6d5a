// Split: subgroups by color, ordered by (key, rank).

#include <gmock/gmock.h>

#include <memory>
#include <utility>
#include <vector>

#include "testing/conformance/collective_conformance.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

absl::StatusOr<std::unique_ptr<Collective>> SplitOff(Collective& group,
                                                     int32_t color,
                                                     int32_t key) {
  return group.Split(color, key, "part", GuardDeadline(group.runtime()));
}

// The numbers of all ranks of `group`, in rank order.
absl::StatusOr<std::vector<int32_t>> Gathered(Collective& group,
                                              int32_t number) {
  const std::vector<int64_t> counts(static_cast<size_t>(group.size()), 1);
  std::vector<int32_t> numbers(counts.size(), -1);
  if (absl::Status s = Finish(
          group, group.AllGatherV(
                     ConstBuffer::Of(std::span<const int32_t>(&number, 1)),
                     MutableBuffer::Of(std::span(numbers)), counts));
      !s.ok()) {
    return s;
  }
  return numbers;
}

// Runs on each rank; the parts live until all ranks are done with theirs.
absl::Status LeaveTogether(Collective& world) {
  return Finish(world, world.Barrier());
}

TEST_P(CollectiveConformance, SplitMakesOneGroupForEachColor) {
  if (!Promises().split) GTEST_SKIP() << "split is not promised";
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const int32_t rank = ToInt(world.rank());
    const int32_t color = rank % 2;
    auto part = SplitOff(world, color, 0);
    if (!part.ok()) return part.status();
    EXPECT_EQ((*part)->size(), (size() + 1 - color) / 2);
    EXPECT_EQ(ToInt((*part)->rank()), rank / 2);
    const auto numbers = Gathered(**part, rank);
    if (!numbers.ok()) return numbers.status();
    for (size_t i = 0; i < numbers->size(); ++i) {
      EXPECT_EQ((*numbers)[i], 2 * static_cast<int32_t>(i) + color);
    }
    return LeaveTogether(world);
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, SplitOrdersByKeyAndThenByRank) {
  if (!Promises().split) GTEST_SKIP() << "split is not promised";
  std::vector<int32_t> expected;
  for (const int32_t key : {0, 1}) {
    for (int32_t r = 0; r < size(); ++r) {
      if ((r % 3 == 0 ? 1 : 0) == key) expected.push_back(r);
    }
  }
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const int32_t rank = ToInt(world.rank());
    auto part = SplitOff(world, 7, rank % 3 == 0 ? 1 : 0);
    if (!part.ok()) return part.status();
    EXPECT_EQ(expected[IndexOf((*part)->rank())], rank);
    const auto numbers = Gathered(**part, rank);
    if (!numbers.ok()) return numbers.status();
    EXPECT_THAT(*numbers, ElementsAreArray(expected));
    return LeaveTogether(world);
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, ARankWithoutColorGetsNoGroup) {
  if (!Promises().split) GTEST_SKIP() << "split is not promised";
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const bool stays_out = world.rank() == last();
    auto part = SplitOff(world, stays_out ? -1 : 0, 0);
    if (!part.ok()) return part.status();
    EXPECT_EQ(*part == nullptr, stays_out);
    if (*part != nullptr) {
      EXPECT_EQ((*part)->size(), size() - 1);
      if (absl::Status s = Finish(**part, (*part)->Barrier()); !s.ok()) {
        return s;
      }
    }
    return LeaveTogether(world);
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, APartCanBeSplitAgainAndUsedBesideItsWhole) {
  if (!Promises().split) GTEST_SKIP() << "split is not promised";
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const int32_t rank = ToInt(world.rank());
    auto half = SplitOff(world, rank % 2, 0);
    if (!half.ok()) return half.status();
    auto quarter = SplitOff(**half, rank / 2 % 2, 0);
    if (!quarter.ok()) return quarter.status();
    for (Collective* group : {&world, half->get(), quarter->get()}) {
      const auto numbers = Gathered(*group, rank);
      if (!numbers.ok()) return numbers.status();
      const int32_t stride = size() == group->size() ? 1
                             : group == half->get()  ? 2
                                                     : 4;
      for (size_t i = 1; i < numbers->size(); ++i) {
        EXPECT_EQ((*numbers)[i] - (*numbers)[i - 1], stride);
      }
    }
    return LeaveTogether(world);
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(PeerConformance, SplitWithAnAbsentRankIsADeadlineNotAHang) {
  if (!Promises().split) GTEST_SKIP() << "split is not promised";
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    if (context.rank == last()) {
      return context.store.Get("others-gave-up", GuardDeadline(context.runtime))
          .status();
    }
    const auto part = context.world->Split(
        0, 0, "part", context.runtime.Now() + absl::Milliseconds(20));
    EXPECT_FALSE(part.ok());
    // Whoever gives up first breaks the attempt for all.
    if (context.rank == Rank{0}) {
      EXPECT_THAT(part, StatusIs(absl::StatusCode::kDeadlineExceeded));
    }
    return context.store.Put("others-gave-up", "yes");
  });
  EXPECT_THAT(results, Each(IsOk()));
}

}  // namespace
}  // namespace muonshard::testing
