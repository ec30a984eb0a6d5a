#include "plugins/support/mismatch.h"

#include <bit>
#include <cstddef>
#include <vector>

namespace muonshard::plugins {
namespace {

std::string RankText(int32_t rank) { return "rank " + std::to_string(rank); }

// "" or the first rank whose count differs.
std::string CompareCounts(const std::vector<Segment>& left,
                          const std::vector<Segment>& right) {
  for (size_t rank = 0; rank < left.size(); ++rank) {
    if (left[rank].count == right[rank].count) continue;
    return "the counts for " + RankText(static_cast<int32_t>(rank)) + " are " +
           std::to_string(left[rank].count) + " and " +
           std::to_string(right[rank].count);
  }
  return "";
}

// "" or what `from` sends and `to` does not expect.
std::string CompareExchange(const RankCall& from, const RankCall& to) {
  const uint64_t sent =
      from.call.in_segments[static_cast<size_t>(to.rank)].count;
  const uint64_t expected =
      to.call.out_segments[static_cast<size_t>(from.rank)].count;
  if (sent == expected) return "";
  return RankText(from.rank) + " sends " + std::to_string(sent) + " to " +
         RankText(to.rank) + ", which expects " + std::to_string(expected);
}

// What each kind's length is on every rank, root or not.
uint64_t Length(const Call& call) {
  return call.kind == MUONSHARD_BROADCAST || call.kind == MUONSHARD_RECV
             ? call.out_count
             : call.in_count;
}

// "" or what differs between two calls of one kind and type, or between a Send
// and its Recv.
std::string CompareArguments(const RankCall& left, const RankCall& right) {
  const Call& a = left.call;
  const Call& b = right.call;
  if (a.reduces()) {
    if (a.reduction.kind != b.reduction.kind) return "the reductions differ";
    // By their bits: a scale of NaN agrees with itself, and -0 is not 0.
    if (std::bit_cast<uint64_t>(a.reduction.scale) !=
        std::bit_cast<uint64_t>(b.reduction.scale)) {
      return "the scales differ";
    }
  }
  switch (a.kind) {
    case MUONSHARD_REDUCE:
    case MUONSHARD_BROADCAST:
      if (a.root != b.root) return "the roots differ";
      break;
    case MUONSHARD_REDUCE_SCATTER_V:
      return CompareCounts(a.in_segments, b.in_segments);
    case MUONSHARD_ALL_GATHER_V:
      return CompareCounts(a.out_segments, b.out_segments);
    case MUONSHARD_ALL_TO_ALL_V: {
      const std::string there = CompareExchange(left, right);
      return there.empty() ? CompareExchange(right, left) : there;
    }
    default:
      break;
  }
  return Length(a) == Length(b) ? "" : "the lengths differ";
}

std::string Compare(const RankCall& left, const RankCall& right) {
  const Call& a = left.call;
  const Call& b = right.call;
  if (a.kind != b.kind && !(a.pairwise() && b.pairwise())) {
    return "the kinds differ";
  }
  if (a.kind != MUONSHARD_BARRIER &&
      a.reduction.data_type != b.reduction.data_type) {
    return "the data types differ";
  }
  const std::string difference = CompareArguments(left, right);
  if (!difference.empty()) return difference;
  return a.fingerprint == b.fingerprint ? "" : "the fingerprints differ";
}

}  // namespace

Outcome CompareCalls(const RankCall& left, const RankCall& right,
                     uint64_t sequence, const std::string& group) {
  const std::string difference = Compare(left, right);
  if (difference.empty()) return {};
  return {.code = MUONSHARD_E_MISMATCH,
          .text = "operation " + std::to_string(sequence) + " of group " +
                  Quoted(group) + ": " + RankText(left.rank) + " called " +
                  Describe(left.call) + "; " + RankText(right.rank) +
                  " called " + Describe(right.call) + "; " + difference,
          .rank = right.rank,
          .sequence = sequence};
}

}  // namespace muonshard::plugins
