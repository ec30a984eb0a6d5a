// AllReduce: results and in-place use.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/conformance/canonical_reduction.h"
#include "testing/conformance/collective_conformance.h"

namespace muonshard::testing {
namespace {

Exchange AllReduceExchange(size_t ranks, DataType type, int64_t count,
                           const Reduction& reduction) {
  Exchange exchange;
  exchange.name =
      absl::StrCat(ToString(reduction), " of ", count, " ", DataTypeName(type));
  exchange.in = Contributions(&Elements::SmallIntegers, ranks, type, count, 1);
  exchange.out.assign(ranks, Elements(type, count));
  exchange.want.assign(ranks, CanonicalReduction(exchange.in, reduction));
  exchange.call = [reduction](Collective& group, const Elements& in,
                              Elements& out) {
    return group.AllReduce(in.in(), out.out(), reduction);
  };
  return exchange;
}

Exchange InPlace(Exchange exchange, const Reduction& reduction) {
  exchange.out = exchange.in;
  exchange.call = [reduction](Collective& group, const Elements&,
                              Elements& out) {
    return group.AllReduce(out.in(), out.out(), reduction);
  };
  return exchange;
}

TEST_P(CollectiveConformance, AllReduceLeavesTheReductionOnEveryRank) {
  const Capabilities promises = Promises();
  std::vector<Exchange> exchanges;
  for (const DataType type : PromisedDataTypes(promises)) {
    for (const Reduction& reduction : ExactReductions(promises, type)) {
      for (const int64_t count : {0, 1, 7, 97}) {
        exchanges.push_back(AllReduceExchange(ranks(), type, count, reduction));
      }
    }
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, AllReduceOfMoreThanAnyChunk) {
  std::vector<Exchange> exchanges;
  for (const DataType type : OneTypeOfEachWidth(Promises())) {
    exchanges.push_back(
        AllReduceExchange(ranks(), type, LargeCount(type), Reduction::Sum()));
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, AllReduceInPlace) {
  const Capabilities promises = Promises();
  std::vector<Exchange> exchanges;
  for (const DataType type : PromisedDataTypes(promises)) {
    for (const Reduction& reduction : ExactReductions(promises, type)) {
      for (const int64_t count : {0, 1, 97}) {
        exchanges.push_back(InPlace(
            AllReduceExchange(ranks(), type, count, reduction), reduction));
      }
    }
  }
  ExpectExchanges(std::move(exchanges));
}

}  // namespace
}  // namespace muonshard::testing
