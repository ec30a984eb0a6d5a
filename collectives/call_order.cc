#include "collectives/call_order.h"

#include <cstddef>
#include <cstdint>

namespace muonshard {
namespace {

bool IsMessage(const CallFootprint& call) {
  return call.kind == OperationKind::kSend || call.kind == OperationKind::kRecv;
}

// As integers, because the two need not be of one array.
bool Overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a);
  const auto b_begin = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 &&
         a_begin < b_begin + static_cast<uintptr_t>(b_bytes) &&
         b_begin < a_begin + static_cast<uintptr_t>(a_bytes);
}

template <typename A, typename B>
bool Overlap(const A& a, const B& b) {
  return Overlap(a.data, a.count * static_cast<int64_t>(ByteWidth(a.type)),
                 b.data, b.count * static_cast<int64_t>(ByteWidth(b.type)));
}

}  // namespace

CallFootprint FootprintOf(const Operation& operation, bool through_levels) {
  return {.kind = operation.kind,
          .through_levels = through_levels,
          .reads = operation.in,
          .writes = operation.out,
          .name = DescribeOperation(operation)};
}

bool WaitsFor(const CallFootprint& later, const CallFootprint& earlier) {
  if (IsMessage(earlier)) return false;
  if (later.through_levels && earlier.through_levels) {
    return Overlap(later.writes, earlier.writes) ||
           Overlap(later.writes, earlier.reads) ||
           Overlap(later.reads, earlier.writes);
  }
  return later.through_levels || earlier.through_levels;
}

bool ShareLevels(const CallFootprint& a, const CallFootprint& b) {
  if (!a.through_levels && !b.through_levels) return true;
  return a.through_levels && b.through_levels && a.kind == b.kind;
}

std::vector<Event> CallOrder::Before(const CallFootprint& call) {
  std::erase_if(in_flight_,
                [](const auto& earlier) { return earlier.second.done(); });
  std::vector<Event> ends;
  for (const auto& [earlier, work] : in_flight_) {
    if (WaitsFor(call, earlier)) ends.push_back(work.event());
  }
  return ends;
}

void CallOrder::PartPosted(const Work& part) const {
  part.event().Then([on_error = on_error_](const absl::Status& status) {
    if (!status.ok()) on_error(status);
  });
}

void CallOrder::Posted(const CallFootprint& call, const Work& work) {
  in_flight_.emplace_back(call, work);
}

}  // namespace muonshard
