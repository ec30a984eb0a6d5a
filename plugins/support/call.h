// One rank's call of an operation: the descriptor of plugin_abi.h, checked,
// with lists of its own, so that nothing of the caller but the buffers is read
// after the post.

#ifndef PLUGINS_SUPPORT_CALL_H_
#define PLUGINS_SUPPORT_CALL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/support/outcome.h"
#include "plugins/support/reduce.h"

namespace muonshard::plugins {

// One rank's part of a buffer: the run of elements that it sends or gets.
struct Segment {
  uint64_t first = 0;
  uint64_t count = 0;
};

struct Call {
  uint32_t kind = MUONSHARD_BARRIER;
  Reduction reduction;  // Has the data type of every kind.
  int32_t root = 0;
  int32_t peer = 0;
  const std::byte* in = nullptr;
  uint64_t in_count = 0;
  std::byte* out = nullptr;
  uint64_t out_count = 0;
  // One segment per rank, of the kinds that have them; else empty.
  std::vector<Segment> in_segments;
  std::vector<Segment> out_segments;
  int64_t deadline_ns = INT64_MAX;
  uint64_t fingerprint = 0;
  std::string label;

  bool pairwise() const {
    return kind == MUONSHARD_SEND || kind == MUONSHARD_RECV;
  }
  bool reduces() const {
    return kind == MUONSHARD_ALL_REDUCE || kind == MUONSHARD_REDUCE ||
           kind == MUONSHARD_REDUCE_SCATTER_V;
  }
  size_t width() const;  // Bytes of an element.
  // Bytes read and written.
  uint64_t bytes() const { return (in_count + out_count) * width(); }
};

// Checks `operation`, called on `rank` of `size`, and copies it.
Outcome MakeCall(const muonshard_operation& operation, int32_t rank,
                 int32_t size, Call* call);

// Bytes of an element, or 0 if there is no such type.
size_t ByteWidth(uint32_t data_type);

// "AllReduce", "AllGatherV", ...
std::string KindName(uint32_t kind);

// "AllReduce f32 sum 8 label \"w\"": all that ranks must agree on, and the
// label.
std::string Describe(const Call& call);

// "operation 17 (AllReduce \"w\") of group \"world\"".
std::string Describe(const Call& call, uint64_t sequence,
                     const std::string& group);

}  // namespace muonshard::plugins

#endif  // PLUGINS_SUPPORT_CALL_H_
