// Broadcast: the root's bits on every rank.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/conformance/collective_conformance.h"

namespace muonshard::testing {
namespace {

Exchange BroadcastExchange(size_t ranks, DataType type, int64_t count,
                           Rank root) {
  Exchange exchange;
  exchange.name =
      absl::StrCat(count, " ", DataTypeName(type), " from rank ", ToInt(root));
  exchange.in = Contributions(&Elements::RandomBits, ranks, type, count, 3);
  exchange.out.assign(ranks, Elements(type, count));
  exchange.want.assign(ranks, exchange.in[IndexOf(root)]);
  exchange.call = [root](Collective& group, const Elements& in, Elements& out) {
    return group.Broadcast(group.rank() == root ? in.in() : in.in(0, 0),
                           out.out(), root);
  };
  return exchange;
}

TEST_P(CollectiveConformance, BroadcastLeavesTheRootsBitsOnEveryRank) {
  std::vector<Exchange> exchanges;
  for (const DataType type : PromisedDataTypes(Promises())) {
    for (const int64_t count : {0, 1, 7, 97}) {
      const Rank root{static_cast<int32_t>(count % size())};
      exchanges.push_back(BroadcastExchange(ranks(), type, count, root));
    }
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, BroadcastOfMoreThanAnyChunk) {
  std::vector<Exchange> exchanges;
  for (const DataType type : OneTypeOfEachWidth(Promises())) {
    exchanges.push_back(
        BroadcastExchange(ranks(), type, LargeCount(type), last()));
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, BroadcastFromEveryRoot) {
  std::vector<Exchange> exchanges;
  for (int32_t root = 0; root < size(); ++root) {
    exchanges.push_back(
        BroadcastExchange(ranks(), DataType::kI64, 31, Rank{root}));
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, BroadcastInPlaceOnTheRoot) {
  std::vector<Exchange> exchanges;
  for (const DataType type : PromisedDataTypes(Promises())) {
    Exchange exchange = BroadcastExchange(ranks(), type, 97, last());
    exchange.out[IndexOf(last())] = exchange.in[IndexOf(last())];
    exchange.call = [root = last()](Collective& group, const Elements&,
                                    Elements& out) {
      return group.Broadcast(group.rank() == root ? out.in() : out.in(0, 0),
                             out.out(), root);
    };
    exchanges.push_back(std::move(exchange));
  }
  ExpectExchanges(std::move(exchanges));
}

}  // namespace
}  // namespace muonshard::testing
