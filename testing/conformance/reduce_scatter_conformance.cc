// ReduceScatterV: each rank's segment of the reduction, and in-place use.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/conformance/canonical_reduction.h"
#include "testing/conformance/collective_conformance.h"

namespace muonshard::testing {
namespace {

Exchange ReduceScatterExchange(size_t ranks, DataType type,
                               const Segments& segments,
                               const Reduction& reduction) {
  Exchange exchange;
  exchange.name =
      absl::StrCat(ToString(reduction), " of ", ToString(segments.counts()),
                   " ", DataTypeName(type));
  exchange.in =
      Contributions(&Elements::SmallIntegers, ranks, type, segments.total(), 4);
  const Elements whole = CanonicalReduction(exchange.in, reduction);
  for (size_t r = 0; r < ranks; ++r) {
    exchange.out.emplace_back(type, segments.count(r));
    exchange.want.push_back(whole.Slice(segments.begin(r), segments.count(r)));
  }
  exchange.call = [segments, reduction](Collective& group, const Elements& in,
                                        Elements& out) {
    return group.ReduceScatterV(in.in(), out.out(), segments.counts(),
                                reduction);
  };
  return exchange;
}

// The own segment of the input is the output; the rest of it keeps its bits.
Exchange InPlace(Exchange exchange, const Segments& segments,
                 const Reduction& reduction) {
  exchange.out = exchange.in;
  for (size_t r = 0; r < exchange.out.size(); ++r) {
    Elements want = exchange.in[r];
    want.Overwrite(segments.begin(r), exchange.want[r]);
    exchange.want[r] = std::move(want);
  }
  exchange.call = [segments, reduction](Collective& group, const Elements&,
                                        Elements& out) {
    const size_t rank = IndexOf(group.rank());
    return group.ReduceScatterV(
        out.in(), out.out(segments.begin(rank), segments.count(rank)),
        segments.counts(), reduction);
  };
  return exchange;
}

TEST_P(CollectiveConformance, ReduceScatterLeavesItsSegmentOnEachRank) {
  const Capabilities promises = Promises();
  std::vector<Exchange> exchanges;
  for (const DataType type : PromisedDataTypes(promises)) {
    for (const Reduction& reduction : ExactReductions(promises, type)) {
      for (const Segments& segments : SegmentsToTry(ranks(), 5)) {
        exchanges.push_back(
            ReduceScatterExchange(ranks(), type, segments, reduction));
      }
    }
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, ReduceScatterOfMoreThanAnyChunk) {
  std::vector<Exchange> exchanges;
  for (const DataType type : OneTypeOfEachWidth(Promises())) {
    exchanges.push_back(ReduceScatterExchange(
        ranks(), type, LargeSegments(ranks(), type), Reduction::Sum()));
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, ReduceScatterIntoItsOwnSegmentInPlace) {
  std::vector<Exchange> exchanges;
  for (const DataType type : PromisedDataTypes(Promises())) {
    for (const Segments& segments : SegmentsToTry(ranks(), 6)) {
      exchanges.push_back(InPlace(
          ReduceScatterExchange(ranks(), type, segments, Reduction::Sum()),
          segments, Reduction::Sum()));
    }
  }
  ExpectExchanges(std::move(exchanges));
}

}  // namespace
}  // namespace muonshard::testing
