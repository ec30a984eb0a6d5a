// What hierarchies over loopback leave on every rank, and what that sends
// between hosts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
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
#include "collectives/testing/hierarchy_test.h"
#include "testing/conformance/canonical_reduction.h"
#include "testing/conformance/elements.h"
#include "testing/conformance/exchange.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

constexpr char kCopy[] = "plugins/loopback/libmuonshard_loopback_copy.so";

// Uneven, and empty for the first rank and for one host of several lanes.
Segments Cut(const HierarchyShape& shape) {
  std::vector<int64_t> counts;
  for (int32_t r = 0; r < shape.size(); ++r) {
    const bool empty = r == 0 || (shape.lanes > 1 && r / shape.lanes == 1);
    counts.push_back(empty ? 0 : 3 + 4 * r);
  }
  return Segments(std::move(counts));
}

Exchange Scatter(std::vector<Elements> in, const Segments& cut,
                 const Reduction& reduction) {
  Exchange exchange;
  exchange.name = absl::StrCat("ReduceScatterV, ", ToString(reduction));
  for (const int64_t count : cut.counts()) {
    exchange.out.emplace_back(in[0].type(), count);
  }
  exchange.in = std::move(in);
  exchange.call = [cut, reduction](Collective& group, const Elements& given,
                                   Elements& out) {
    return group.ReduceScatterV(given.in(), out.out(), cut.counts(), reduction);
  };
  return exchange;
}

Exchange Gather(const Elements& whole, const Segments& cut) {
  Exchange exchange;
  exchange.name = "AllGatherV";
  for (size_t r = 0; r < cut.counts().size(); ++r) {
    exchange.in.push_back(whole.Slice(cut.begin(r), cut.count(r)));
    exchange.out.emplace_back(whole.type(), cut.total());
    exchange.want.push_back(whole);
  }
  exchange.call = [cut](Collective& group, const Elements& given,
                        Elements& out) {
    return group.AllGatherV(given.in(), out.out(), cut.counts());
  };
  return exchange;
}

Exchange Sum(std::vector<Elements> in, const Reduction& reduction) {
  Exchange exchange;
  exchange.name = absl::StrCat("AllReduce, ", ToString(reduction));
  exchange.out.assign(in.size(), Elements(in[0].type(), in[0].count()));
  exchange.in = std::move(in);
  exchange.call = [reduction](Collective& group, const Elements& given,
                              Elements& out) {
    return group.AllReduce(given.in(), out.out(), reduction);
  };
  return exchange;
}

Exchange FromRoot(const Elements& sent, size_t ranks, Rank root) {
  Exchange exchange;
  exchange.name = absl::StrCat("Broadcast from rank ", ToInt(root));
  exchange.in.assign(ranks, sent);
  exchange.out.assign(ranks, Elements(sent.type(), sent.count()));
  exchange.want.assign(ranks, sent);
  exchange.call = [root](Collective& group, const Elements& given,
                         Elements& out) {
    return group.Broadcast(group.rank() == root ? given.in() : given.in(0, 0),
                           out.out(), root);
  };
  return exchange;
}

void ExpectWanted(const std::vector<Exchange>& exchanges) {
  for (const Exchange& exchange : exchanges) {
    for (size_t r = 0; r < exchange.out.size(); ++r) {
      SCOPED_TRACE(absl::StrCat(exchange.name, ", rank ", r));
      EXPECT_TRUE(HasBitsOf(exchange.out[r], exchange.want[r]));
    }
  }
}

// Small integers, of which every order of a sum has the same bits, in all four
// operations that go through the levels.
std::vector<Exchange> ExactExchanges(const HierarchyShape& shape) {
  const auto ranks = static_cast<size_t>(shape.size());
  const Segments cut = Cut(shape);
  std::vector<Exchange> exchanges;
  for (const DataType type : {DataType::kF32, DataType::kI64}) {
    for (const Reduction& reduction :
         {Reduction::Sum(), Reduction::Min(), Reduction::ScaledSum(0.25)}) {
      const bool scaled = reduction.kind == ReductionKind::kScaledSum;
      if (scaled && !IsFloating(type)) continue;
      exchanges.push_back(Scatter(
          Contributions(&Elements::SmallIntegers, ranks, type, cut.total(), 1),
          cut, reduction));
      exchanges.push_back(
          Sum(Contributions(&Elements::SmallIntegers, ranks, type, 17, 2),
              reduction));
    }
  }
  exchanges.push_back(
      Gather(Elements::RandomBits(DataType::kBF16, cut.total(), 3), cut));
  for (int32_t root = 0; root < shape.size(); ++root) {
    exchanges.push_back(FromRoot(Elements::RandomBits(DataType::kF64, 5, 4),
                                 ranks, Rank{root}));
  }
  return exchanges;
}

class HierarchicalResultsTest : public HierarchyTest {};

TEST_P(HierarchicalResultsTest, OfExactSumsAFlatGroupHasTheSameBits) {
  for (const HierarchyShape& shape : kHierarchyShapes) {
    SCOPED_TRACE(shape.name());
    std::vector<Exchange> flat = ExactExchanges(shape);
    std::vector<Exchange> exchanges = flat;
    const auto flat_results =
        RunOnRanks({.runtime = GetParam(), .size = shape.size()},
                   [&](Collective& world) {
                     return MakeExchanges(flat, world, Pace::kAllAtOnce,
                                          GuardDeadline(world.runtime()));
                   })
            .results;
    ASSERT_THAT(flat_results, Each(IsOk()));
    const auto results = Run(shape, [&](RankContext& context) {
      return MakeExchanges(exchanges, *context.world, Pace::kAllAtOnce,
                           GuardDeadline(context.runtime));
    });
    ASSERT_THAT(results, Each(IsOk()));
    for (size_t i = 0; i < exchanges.size(); ++i) {
      exchanges[i].want = flat[i].out;
    }
    ExpectWanted(exchanges);
  }
}

TEST_P(HierarchicalResultsTest, AReductionIsTheFoldOverHostsOfFoldsOverLanes) {
  for (const HierarchyShape& shape : kHierarchyShapes) {
    SCOPED_TRACE(shape.name());
    const auto ranks = static_cast<size_t>(shape.size());
    const Segments cut = Cut(shape);
    std::vector<Exchange> exchanges;
    for (const DataType type :
         {DataType::kF32, DataType::kF64, DataType::kF16, DataType::kBF16}) {
      for (const Reduction& reduction :
           {Reduction::Sum(), Reduction::Max(), Reduction::Average(),
            Reduction::ScaledSum(1.0 / 7)}) {
        const std::vector<Elements> in = Contributions(
            &Elements::Random, ranks, type, cut.total(), exchanges.size());
        const Elements whole = CanonicalReduction(in, reduction, shape.lanes);
        Exchange scatter = Scatter(in, cut, reduction);
        for (size_t r = 0; r < ranks; ++r) {
          scatter.want.push_back(whole.Slice(cut.begin(r), cut.count(r)));
        }
        Exchange sum = Sum(in, reduction);
        sum.want.assign(ranks, whole);
        exchanges.push_back(std::move(scatter));
        exchanges.push_back(std::move(sum));
      }
    }
    const auto results = Run(shape, [&](RankContext& context) {
      return MakeExchanges(exchanges, *context.world, Pace::kOneByOne,
                           GuardDeadline(context.runtime));
    });
    ASSERT_THAT(results, Each(IsOk()));
    ExpectWanted(exchanges);
  }
}

// 65504 is the largest f16: the sum of any two is infinite.
TEST_P(HierarchicalResultsTest, AMeanOfFiniteF16IsFiniteOnEveryLevel) {
  constexpr uint16_t kLargest = 0x7BFF;
  constexpr int64_t kCount = 7;
  for (const HierarchyShape& shape : kHierarchyShapes) {
    SCOPED_TRACE(shape.name());
    const auto ranks = static_cast<size_t>(shape.size());
    Elements large(DataType::kF16, kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      std::memcpy(large.out(i, 1).data, &kLargest, sizeof(kLargest));
    }
    std::vector<Exchange> exchanges;
    for (const Reduction& mean :
         {Reduction::Average(), Reduction::ScaledSum(1.0 / shape.size())}) {
      exchanges.push_back(Sum(std::vector<Elements>(ranks, large), mean));
      exchanges.back().want.assign(ranks, large);
      const Segments cut(std::vector<int64_t>(ranks, 1));
      exchanges.push_back(
          Scatter(std::vector<Elements>(ranks, large.Slice(0, shape.size())),
                  cut, mean));
      exchanges.back().want.assign(ranks, large.Slice(0, 1));
    }
    const auto results = Run(shape, [&](RankContext& context) {
      return MakeExchanges(exchanges, *context.world, Pace::kOneByOne,
                           GuardDeadline(context.runtime));
    });
    ASSERT_THAT(results, Each(IsOk()));
    ExpectWanted(exchanges);
  }
}

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
TEST_P(HierarchicalResultsTest, BetweenHostsGoesOneOverLanesOfAFlatGroup) {
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

TEST_P(HierarchicalResultsTest, LevelsMayBeOfDifferentPlugins) {
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
    for (size_t i = 0; i < exchanges.size(); ++i) {
      exchanges[i].want = flat[i].out;
    }
    ExpectWanted(exchanges);
  }
}

// 2 hosts of 2 sockets of 2 lanes.
TEST_P(HierarchicalResultsTest, ALevelMayBeAHierarchy) {
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
  for (size_t i = 0; i < exchanges.size(); ++i) {
    exchanges[i].want = flat[i].out;
  }
  ExpectWanted(exchanges);
}

// Segments in reverse order, each after a gap of one element.
TEST_P(HierarchicalResultsTest, SegmentsMayLieApart) {
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

INSTANTIATE_TEST_SUITE_P(Runtimes, HierarchicalResultsTest,
                         ::testing::ValuesIn(BothRuntimes(3)), RuntimeCaseName);

}  // namespace
}  // namespace muonshard::testing
