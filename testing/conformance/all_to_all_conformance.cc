// AllToAllV: a segment from each rank to each rank.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/conformance/collective_conformance.h"

namespace muonshard::testing {
namespace {

// sent[s][d] elements go from rank s to rank d.
using CountMatrix = std::vector<std::vector<int64_t>>;

CountMatrix CountsFromTo(size_t ranks, auto&& count_of) {
  CountMatrix sent(ranks, std::vector<int64_t>(ranks));
  for (size_t s = 0; s < ranks; ++s) {
    for (size_t d = 0; d < ranks; ++d) sent[s][d] = count_of(s, d);
  }
  return sent;
}

Exchange AllToAllExchange(DataType type, const CountMatrix& sent) {
  const size_t ranks = sent.size();
  std::vector<Segments> in_segments;
  std::vector<Segments> out_segments;
  for (size_t r = 0; r < ranks; ++r) {
    in_segments.emplace_back(sent[r]);
    std::vector<int64_t> received;
    for (size_t s = 0; s < ranks; ++s) received.push_back(sent[s][r]);
    out_segments.emplace_back(std::move(received));
  }

  Exchange exchange;
  for (size_t r = 0; r < ranks; ++r) {
    absl::StrAppend(&exchange.name, ToString(sent[r]), " from rank ", r, ", ");
    exchange.in.push_back(
        Elements::RandomBits(type, in_segments[r].total(), Seed(10, r)));
    exchange.out.emplace_back(type, out_segments[r].total());
  }
  exchange.want = exchange.out;
  for (size_t s = 0; s < ranks; ++s) {
    for (size_t d = 0; d < ranks; ++d) {
      exchange.want[d].Overwrite(
          out_segments[d].begin(s),
          exchange.in[s].Slice(in_segments[s].begin(d), sent[s][d]));
    }
  }
  exchange.call = [in_segments, out_segments](
                      Collective& group, const Elements& in, Elements& out) {
    const size_t rank = IndexOf(group.rank());
    return group.AllToAllV(in.in(), out.out(), in_segments[rank].counts(),
                           out_segments[rank].counts());
  };
  return exchange;
}

TEST_P(CollectiveConformance, AllToAllBringsEachSegmentToItsRank) {
  std::vector<Exchange> exchanges;
  for (const DataType type : PromisedDataTypes(Promises())) {
    exchanges.push_back(AllToAllExchange(
        type, CountsFromTo(ranks(), [](size_t, size_t) { return 0; })));
    exchanges.push_back(AllToAllExchange(
        type, CountsFromTo(ranks(), [](size_t, size_t) { return 3; })));
    for (uint64_t round = 0; round < 2; ++round) {
      exchanges.push_back(AllToAllExchange(
          type, CountsFromTo(ranks(), [round](size_t s, size_t d) {
            return static_cast<int64_t>(Seed(round, s, d) % 9);
          })));
    }
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, AllToAllOfMoreThanAnyChunk) {
  std::vector<Exchange> exchanges;
  for (const DataType type : OneTypeOfEachWidth(Promises())) {
    // All of it crosses from the first rank to the last, so to speak of one
    // rank, to itself.
    exchanges.push_back(AllToAllExchange(
        type, CountsFromTo(ranks(), [&](size_t s, size_t d) {
          return s == 0 && d + 1 == ranks() ? LargeCount(type) : 0;
        })));
  }
  ExpectExchanges(std::move(exchanges));
}

}  // namespace
}  // namespace muonshard::testing
