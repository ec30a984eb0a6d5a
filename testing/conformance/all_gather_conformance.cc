// AllGatherV: all segments on every rank, bit for bit, and in-place use.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/conformance/collective_conformance.h"

namespace muonshard::testing {
namespace {

Exchange AllGatherExchange(size_t ranks, DataType type,
                           const Segments& segments) {
  Exchange exchange;
  exchange.name =
      absl::StrCat(ToString(segments.counts()), " ", DataTypeName(type));
  const Elements whole = Elements::RandomBits(type, segments.total(), 7);
  for (size_t r = 0; r < ranks; ++r) {
    exchange.in.push_back(whole.Slice(segments.begin(r), segments.count(r)));
  }
  exchange.out.assign(ranks, Elements(type, segments.total()));
  exchange.want.assign(ranks, whole);
  exchange.call = [segments](Collective& group, const Elements& in,
                             Elements& out) {
    return group.AllGatherV(in.in(), out.out(), segments.counts());
  };
  return exchange;
}

Exchange InPlace(Exchange exchange, const Segments& segments) {
  for (size_t r = 0; r < exchange.out.size(); ++r) {
    exchange.out[r].Overwrite(segments.begin(r), exchange.in[r]);
  }
  exchange.call = [segments](Collective& group, const Elements&,
                             Elements& out) {
    const size_t rank = IndexOf(group.rank());
    return group.AllGatherV(out.in(segments.begin(rank), segments.count(rank)),
                            out.out(), segments.counts());
  };
  return exchange;
}

TEST_P(CollectiveConformance, AllGatherLeavesAllSegmentsOnEveryRank) {
  std::vector<Exchange> exchanges;
  for (const DataType type : PromisedDataTypes(Promises())) {
    for (const Segments& segments : SegmentsToTry(ranks(), 8)) {
      exchanges.push_back(AllGatherExchange(ranks(), type, segments));
    }
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, AllGatherOfMoreThanAnyChunk) {
  std::vector<Exchange> exchanges;
  for (const DataType type : OneTypeOfEachWidth(Promises())) {
    exchanges.push_back(
        AllGatherExchange(ranks(), type, LargeSegments(ranks(), type)));
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, AllGatherFromItsOwnSegmentInPlace) {
  std::vector<Exchange> exchanges;
  for (const DataType type : PromisedDataTypes(Promises())) {
    for (const Segments& segments : SegmentsToTry(ranks(), 9)) {
      exchanges.push_back(
          InPlace(AllGatherExchange(ranks(), type, segments), segments));
    }
  }
  ExpectExchanges(std::move(exchanges));
}

}  // namespace
}  // namespace muonshard::testing
