#include "plugins/loopback/checks.h"

#include <algorithm>
#include <new>
#include <span>
#include <string>
#include <vector>

namespace muonshard::loopback {
namespace {

constexpr std::byte kPoison{0xff};
constexpr std::byte kGuard{0xa5};
constexpr size_t kGuardBytes = kMemoryAlignment;

// The runs of a buffer that an operation uses.
std::vector<Segment> RunsOf(const std::vector<Segment>& segments,
                            uint64_t count) {
  if (!segments.empty()) return segments;
  return {{.first = 0, .count = count}};
}

// Compared as integers, because the two need not be of one array.
bool Overlap(const std::byte* a, uint64_t a_bytes, const std::byte* b,
             uint64_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a);
  const auto b_begin = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && a_begin < b_begin + b_bytes &&
         b_begin < a_begin + a_bytes;
}

bool IsGuard(const std::byte* begin, const std::byte* end) {
  return std::all_of(begin, end, [](std::byte byte) { return byte == kGuard; });
}

}  // namespace

Payload InputOf(const Call& call) {
  Payload payload;
  const size_t width = call.width();
  const uint64_t out_bytes = call.out_count * width;
  for (const Segment& run : RunsOf(call.in_segments, call.in_count)) {
    if (run.count == 0) continue;
    const std::byte* const data = call.in + run.first * width;
    const uint64_t bytes = run.count * width;
    // In place, only a reduction changes what is there.
    if (call.reduces() && Overlap(data, bytes, call.out, out_bytes)) continue;
    payload.emplace_back(data, bytes);
  }
  return payload;
}

void PoisonOutput(const Call& call) {
  const size_t width = call.width();
  const uint64_t in_bytes = call.in_count * width;
  for (const Segment& run : RunsOf(call.out_segments, call.out_count)) {
    if (run.count == 0) continue;
    std::byte* const data = call.out + run.first * width;
    const uint64_t bytes = run.count * width;
    if (Overlap(data, bytes, call.in, in_bytes)) continue;
    std::fill_n(data, bytes, kPoison);
  }
}

void* NewGuardedMemory(uint64_t bytes) {
  auto* const head = static_cast<std::byte*>(operator new (
      bytes + 2 * kGuardBytes, std::align_val_t{kMemoryAlignment}));
  std::byte* const memory = head + kGuardBytes;
  std::fill(head, memory, kGuard);
  std::fill_n(memory, bytes, kPoison);
  std::fill_n(memory + bytes, kGuardBytes, kGuard);
  return memory;
}

Outcome CheckGuards(const void* memory, uint64_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(memory);
  const std::byte* const end = begin + bytes;
  std::string side;
  if (!IsGuard(begin - kGuardBytes, begin)) {
    side = "before";
  } else if (!IsGuard(end, end + kGuardBytes)) {
    side = "behind";
  }
  if (side.empty()) return {};
  return {.code = MUONSHARD_E_CORRUPT,
          .text = "somebody wrote " + side + " the " + std::to_string(bytes) +
                  " bytes of a window"};
}

void FreeGuardedMemory(void* memory) {
  operator delete (static_cast<std::byte*>(memory) - kGuardBytes,
                   std::align_val_t{kMemoryAlignment});
}

}  // namespace muonshard::loopback
