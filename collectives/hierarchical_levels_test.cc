// Levels of several kinds, segments that lie apart, and what goes between
// hosts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/batch.h"
#include "collectives/hierarchical_collective.h"
#include "collectives/plugin.h"
#include "collectives/testing/hierarchy_exchanges.h"
#include "collectives/testing/hierarchy_test.h"
#include "testing/conformance/elements.h"
#include "testing/conformance/exchange.h"
#include "testing/conformance/hierarchical_group.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

constexpr char kCopy[] = "plugins/loopback/libmuonshard_loopback_copy.so";

class HierarchicalLevelsTest : public HierarchyTest {};

// Bytes that all ranks together have sent between hosts.
uint64_t BytesBetweenHosts(std::span<const CollectiveCounters> by_rank,
                           size_t lanes) {
  uint64_t bytes = 0;
  for (size_t r = 0; r < by_rank.size(); ++r) {
    for (size_t i = 0; i < by_rank.size(); ++i) {
      if (r / lanes != i / lanes) bytes += by_rank[r].bytes_sent_to[i];
    }
  }
  return bytes;
}

// Loopback counts what a direct algorithm sends.
TEST_P(HierarchicalLevelsTest, BetweenHostsGoesOneOverLanesOfAFlatGroup) {
  for (const HierarchyShape& shape : kHierarchyShapes) {
    const auto ranks = static_cast<size_t>(shape.size());
    const auto lanes = static_cast<size_t>(shape.lanes);
    const Segments cut = Cut(shape);
    const Elements whole(DataType::kF32, cut.total());
    for (Exchange exchange :
         {Scatter(std::vector<Elements>(ranks, whole), cut, Reduction::Sum()),
          Gather(whole, cut),
          Sum(std::vector<Elements>(ranks, whole), Reduction::Sum()),
          FromRoot(whole, ranks, Rank{shape.size() - 1})}) {
      SCOPED_TRACE(absl::StrCat(exchange.name, ", ", shape.name()));
      const auto make = [&](Collective& group,
                            std::vector<CollectiveCounters>& by_rank) {
        if (absl::Status s =
                MakeExchanges(std::span(&exchange, 1), group, Pace::kOneByOne,
                              GuardDeadline(group.runtime()));
            !s.ok()) {
          return s;
        }
        absl::StatusOr<CollectiveCounters> counters = group.Counters();
        if (!counters.ok()) return counters.status();
        by_rank[IndexOf(group.rank())] = *std::move(counters);
        return absl::OkStatus();
      };
      std::vector<CollectiveCounters> flat(ranks);
      EXPECT_THAT(
          RunOnRanks({.runtime = GetParam(), .size = shape.size()},
                     [&](Collective& world) { return make(world, flat); })
              .results,
          Each(IsOk()));
      std::vector<CollectiveCounters> levels(ranks);
      EXPECT_THAT(Run(shape,
                      [&](RankContext& context) {
                        return make(*context.world, levels);
                      }),
                  Each(IsOk()));
      EXPECT_EQ(BytesBetweenHosts(flat, lanes),
                BytesBetweenHosts(levels, lanes) * lanes);
      EXPECT_EQ(BytesBetweenHosts(levels, lanes) == 0, shape.hosts == 1);
    }
  }
}

TEST_P(HierarchicalLevelsTest, LevelsMayBeOfDifferentPlugins) {
  for (const HierarchyShape& shape : {HierarchyShape{2, 2}, {2, 3}}) {
    SCOPED_TRACE(shape.name());
    std::vector<Exchange> exchanges = ExactExchanges(shape);
    std::vector<Exchange> flat = exchanges;
    const std::function<absl::Status(RankContext&)> program =
        [&](RankContext& context) -> absl::Status {
      auto copy = Plugin::Open({.plugin = kCopy}, context.runtime);
      if (!copy.ok()) return copy.status();
      if (absl::Status s = MakeExchanges(flat, *context.world, Pace::kOneByOne,
                                         GuardDeadline(context.runtime));
          !s.ok()) {
        return s;
      }
      auto hierarchy = NewHierarchy(context, std::move(context.world),
                                    shape.lanes, context.plugin, **copy);
      if (!hierarchy.ok()) return hierarchy.status();
      if (absl::Status s =
              MakeExchanges(exchanges, **hierarchy, Pace::kAllAtOnce,
                            GuardDeadline(context.runtime));
          !s.ok()) {
        return s;
      }
      return WaitFor(context, (*hierarchy)->Barrier());
    };
    const auto results =
        RunOnRanks({.runtime = GetParam(), .size = shape.size()}, program)
            .results;
    ASSERT_THAT(results, Each(IsOk()));
    WantWhatCameOf(flat, exchanges);
    ExpectWanted(exchanges);
  }
}

// 2 hosts of 2 sockets of 2 lanes.
TEST_P(HierarchicalLevelsTest, ALevelMayBeAHierarchy) {
  constexpr HierarchyShape kOuter = {2, 4};
  std::vector<Exchange> exchanges = ExactExchanges(kOuter);
  std::vector<Exchange> flat = exchanges;
  const std::function<absl::Status(RankContext&)> program =
      [&](RankContext& context) -> absl::Status {
    if (absl::Status s = MakeExchanges(flat, *context.world, Pace::kOneByOne,
                                       GuardDeadline(context.runtime));
        !s.ok()) {
      return s;
    }
    const int32_t rank = ToInt(context.rank);
    const auto group = [&](int32_t index, int32_t size, std::string name) {
      return context.plugin.NewGroup(
          {.rank = Rank{index},
           .size = size,
           .name = std::move(name),
           .deadline = GuardDeadline(context.runtime),
           .store = &context.store});
    };
    auto host = group(rank % 4, 4, absl::StrCat("host", rank / 4));
    if (!host.ok()) return host.status();
    auto sockets = NewHierarchy(context, *std::move(host), 2, context.plugin,
                                context.plugin);
    if (!sockets.ok()) return sockets.status();
    auto lane = group(rank / 4, 2, absl::StrCat("lane", rank % 4));
    if (!lane.ok()) return lane.status();
    auto hierarchy =
        NewHierarchicalCollective({.whole = std::move(context.world),
                                   .host_level = *std::move(sockets),
                                   .lane_level = *std::move(lane)});
    if (!hierarchy.ok()) return hierarchy.status();
    context.world = *std::move(hierarchy);
    return MakeExchanges(exchanges, *context.world, Pace::kAllAtOnce,
                         GuardDeadline(context.runtime));
  };
  const auto results =
      RunOnRanks({.runtime = GetParam(), .size = kOuter.size()}, program)
          .results;
  ASSERT_THAT(results, Each(IsOk()));
  WantWhatCameOf(flat, exchanges);
  ExpectWanted(exchanges);
}

// Segments in reverse order, each after a gap of one element.
TEST_P(HierarchicalLevelsTest, SegmentsMayLieApart) {
  constexpr HierarchyShape kShape = {2, 2};
  constexpr int64_t kTotal = 12;
  const std::vector<int64_t> counts = {2, 0, 3, 1};
  const std::vector<int64_t> begins = {9, 0, 5, 3};
  std::vector<std::vector<int32_t>> sums(4), gathers(4);
  const auto results = Run(kShape, [&](RankContext& context) -> absl::Status {
    const size_t rank = IndexOf(context.rank);
    std::vector<int32_t> in(kTotal);
    for (size_t i = 0; i < in.size(); ++i) {
      in[i] = static_cast<int32_t>(100 * i) + ToInt(context.rank);
    }
    sums[rank].assign(static_cast<size_t>(counts[rank]), -1);
    gathers[rank].assign(kTotal, -1);
    Batch batch;
    if (absl::Status s = batch.Add(
            *context.world, {.kind = OperationKind::kReduceScatterV,
                             .data_type = DataType::kI32,
                             .in = ConstBuffer::Of<int32_t>(in),
                             .out = MutableBuffer::Of<int32_t>(sums[rank]),
                             .in_counts = counts,
                             .in_displacements = begins});
        !s.ok()) {
      return s;
    }
    if (absl::Status s = batch.Add(
            *context.world, {.kind = OperationKind::kAllGatherV,
                             .data_type = DataType::kI32,
                             .in = ConstBuffer::Of<int32_t>(sums[rank]),
                             .out = MutableBuffer::Of<int32_t>(gathers[rank]),
                             .out_counts = counts,
                             .out_displacements = begins});
        !s.ok()) {
      return s;
    }
    const auto works = batch.Post();
    if (!works.ok()) return works.status();
    return works->back().Wait(GuardDeadline(context.runtime));
  });
  ASSERT_THAT(results, Each(IsOk()));
  std::vector<int32_t> want(kTotal, -1);
  for (size_t r = 0; r < counts.size(); ++r) {
    for (int64_t i = begins[r]; i < begins[r] + counts[r]; ++i) {
      want[static_cast<size_t>(i)] = static_cast<int32_t>(400 * i) + 6;
    }
  }
  EXPECT_THAT(gathers, Each(want));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, HierarchicalLevelsTest,
                         ::testing::ValuesIn(BothRuntimes(3)), RuntimeCaseName);

}  // namespace
}  // namespace muonshard::testing
