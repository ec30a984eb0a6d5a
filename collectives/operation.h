// One call of a collective, as a value: what a Batch collects and a plugin
// gets. Callers fill it through the methods of Collective and Batch.

#ifndef COLLECTIVES_OPERATION_H_
#define COLLECTIVES_OPERATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/buffer.h"
#include "collectives/runtime/event.h"
#include "topology/rank.h"

namespace muonshard {

// The values are those of plugin_abi.h.
enum class OperationKind : uint32_t {
  kAllReduce = 0,
  kReduce = 1,
  kBroadcast = 2,
  kReduceScatterV = 3,
  kAllGatherV = 4,
  kAllToAllV = 5,
  kSend = 6,
  kRecv = 7,
  kBarrier = 8,
};
inline constexpr int kOperationKindCount = 9;

// "AllReduce", "ReduceScatterV", ...
absl::string_view OperationKindName(OperationKind kind);

// Whether operations of this kind take a Reduction.
constexpr bool Reduces(OperationKind kind) {
  return kind == OperationKind::kAllReduce || kind == OperationKind::kReduce ||
         kind == OperationKind::kReduceScatterV;
}

// How the contributions of the ranks become one. The values are those of
// plugin_abi.h.
enum class ReductionKind : uint32_t {
  kSum = 1,
  kMin = 2,
  kMax = 3,
  kAverage = 4,
  kScaledSum = 5,
};

struct Reduction {
  ReductionKind kind = ReductionKind::kSum;
  double scale = 1;  // Of kScaledSum.

  static Reduction Sum() { return {}; }
  static Reduction Min() { return {.kind = ReductionKind::kMin}; }
  static Reduction Max() { return {.kind = ReductionKind::kMax}; }
  static Reduction Average() { return {.kind = ReductionKind::kAverage}; }
  static Reduction ScaledSum(double scale) {
    return {.kind = ReductionKind::kScaledSum, .scale = scale};
  }
};

struct CallOptions {
  // For reports.
  std::string label = "";
  // What must happen before the input is read and the output written. An event
  // that ends in an error fails the call, and with it the group.
  std::vector<Event> ready = {};
  // When the call itself gives up, on this rank. A call that gave up has
  // broken its group.
  absl::Time deadline = absl::InfiniteFuture();
  // Must be equal on all ranks: a hash of what the caller means by the call.
  uint64_t fingerprint = 0;
};

struct Operation {
  OperationKind kind = OperationKind::kBarrier;
  DataType data_type = DataType::kU8;
  Reduction reduction;
  Rank root{};  // Of kReduce and kBroadcast.
  Rank peer{};  // Of kSend and kRecv.
  ConstBuffer in;
  MutableBuffer out;
  // One entry per rank, or empty where the kind has none. Displacements may be
  // empty: packed.
  std::vector<int64_t> in_counts;
  std::vector<int64_t> in_displacements;
  std::vector<int64_t> out_counts;
  std::vector<int64_t> out_displacements;
  CallOptions options;
};

// How reports name a call: its kind, and its label if it has one, as in
// `AllReduce "control vector"`.
std::string DescribeOperation(const Operation& operation);

}  // namespace muonshard

#endif  // COLLECTIVES_OPERATION_H_
