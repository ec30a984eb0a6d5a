// Reduce: results on each root, and in-place use there.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/conformance/canonical_reduction.h"
#include "testing/conformance/collective_conformance.h"

namespace muonshard::testing {
namespace {

Exchange ReduceExchange(size_t ranks, DataType type, int64_t count,
                        const Reduction& reduction, Rank root) {
  Exchange exchange;
  exchange.name = absl::StrCat(ToString(reduction), " of ", count, " ",
                               DataTypeName(type), " to rank ", ToInt(root));
  exchange.in = Contributions(&Elements::SmallIntegers, ranks, type, count, 2);
  // Nothing is taken from the others, nor written to what they hold.
  exchange.out.assign(ranks, Elements(type, 3));
  exchange.out[IndexOf(root)] = Elements(type, count);
  exchange.want = exchange.out;
  exchange.want[IndexOf(root)] = CanonicalReduction(exchange.in, reduction);
  exchange.call = [reduction, root](Collective& group, const Elements& in,
                                    Elements& out) {
    return group.Reduce(in.in(),
                        group.rank() == root ? out.out() : out.out(0, 0),
                        reduction, root);
  };
  return exchange;
}

TEST_P(CollectiveConformance, ReduceLeavesTheReductionOnTheRootAlone) {
  const Capabilities promises = Promises();
  std::vector<Exchange> exchanges;
  for (const DataType type : PromisedDataTypes(promises)) {
    for (const Reduction& reduction : ExactReductions(promises, type)) {
      for (const int64_t count : {0, 1, 7, 97}) {
        const Rank root{static_cast<int32_t>(count) % size()};
        exchanges.push_back(
            ReduceExchange(ranks(), type, count, reduction, root));
      }
    }
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, ReduceToEveryRoot) {
  std::vector<Exchange> exchanges;
  for (int32_t root = 0; root < size(); ++root) {
    exchanges.push_back(ReduceExchange(ranks(), DataType::kF32, 31,
                                       Reduction::Sum(), Rank{root}));
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, ReduceOfMoreThanAnyChunk) {
  std::vector<Exchange> exchanges;
  for (const DataType type : OneTypeOfEachWidth(Promises())) {
    exchanges.push_back(ReduceExchange(ranks(), type, LargeCount(type),
                                       Reduction::Sum(), last()));
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, ReduceInPlaceOnTheRoot) {
  std::vector<Exchange> exchanges;
  for (const DataType type : PromisedDataTypes(Promises())) {
    Exchange exchange =
        ReduceExchange(ranks(), type, 97, Reduction::Sum(), last());
    exchange.out[IndexOf(last())] = exchange.in[IndexOf(last())];
    exchange.call = [root = last()](Collective& group, const Elements& in,
                                    Elements& out) {
      if (group.rank() == root) {
        return group.Reduce(out.in(), out.out(), Reduction::Sum(), root);
      }
      return group.Reduce(in.in(), out.out(0, 0), Reduction::Sum(), root);
    };
    exchanges.push_back(std::move(exchange));
  }
  ExpectExchanges(std::move(exchanges));
}

}  // namespace
}  // namespace muonshard::testing
