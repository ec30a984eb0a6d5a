#include "collectives/testing/hierarchy_exchanges.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muonshard::testing {

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

void ExpectWanted(std::span<const Exchange> exchanges) {
  for (const Exchange& exchange : exchanges) {
    for (size_t r = 0; r < exchange.out.size(); ++r) {
      SCOPED_TRACE(absl::StrCat(exchange.name, ", rank ", r));
      EXPECT_TRUE(HasBitsOf(exchange.out[r], exchange.want[r]));
    }
  }
}

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

void WantWhatCameOf(std::span<const Exchange> flat,
                    std::span<Exchange> exchanges) {
  for (size_t i = 0; i < exchanges.size(); ++i) {
    exchanges[i].want = flat[i].out;
  }
}

}  // namespace muonshard::testing
