#include "plugins/ucx/windows.h"

#include <atomic>
#include <utility>

namespace muonshard::ucx {
namespace {

// At the beginning of a part: its owner has freed it.
std::atomic<uint32_t>& IsFreed(const SharedMemory& part) {
  return *reinterpret_cast<std::atomic<uint32_t>*>(part.data());
}

// Whether the caller's bytes of `part` have `bytes` from `offset` on.
bool Has(const SharedMemory& part, uint64_t offset, uint64_t bytes) {
  const uint64_t whole = part.bytes() - Windows::kHeadBytes;
  return offset <= whole && bytes <= whole - offset;
}

}  // namespace

int32_t Windows::Add(std::vector<std::unique_ptr<SharedMemory>> parts,
                     int32_t rank) {
  Sweep();
  Window& window = windows_[next_];
  window.own = std::move(parts[static_cast<size_t>(rank)]);
  window.parts = std::move(parts);
  return next_++;
}

bool Windows::Free(int32_t window) {
  const auto found = windows_.find(window);
  if (found == windows_.end() || found->second.own == nullptr) return false;
  IsFreed(*found->second.own).store(1, std::memory_order_release);
  found->second.own.reset();
  Sweep();
  return true;
}

bool Windows::Find(const std::byte* from, uint64_t bytes, int32_t* window,
                   uint64_t* offset) const {
  for (const auto& [number, candidate] : windows_) {
    if (candidate.own == nullptr) continue;
    const std::byte* const begin = candidate.own->data() + kHeadBytes;
    // As integers, because the two need not be of one array.
    const auto at = reinterpret_cast<uintptr_t>(from);
    const auto first = reinterpret_cast<uintptr_t>(begin);
    if (at < first || !Has(*candidate.own, at - first, bytes)) continue;
    *window = number;
    *offset = at - first;
    return true;
  }
  return false;
}

const std::byte* Windows::At(int32_t peer, int32_t window, uint64_t offset,
                             uint64_t bytes) const {
  const auto found = windows_.find(window);
  if (found == windows_.end()) return nullptr;
  const SharedMemory* const part =
      found->second.parts[static_cast<size_t>(peer)].get();
  if (part == nullptr || !Has(*part, offset, bytes)) return nullptr;
  return part->data() + kHeadBytes + offset;
}

void Windows::Sweep() {
  for (auto window = windows_.begin(); window != windows_.end();) {
    bool is_used = window->second.own != nullptr;
    for (std::unique_ptr<SharedMemory>& part : window->second.parts) {
      if (part == nullptr) continue;
      if (IsFreed(*part).load(std::memory_order_acquire) != 0) {
        part.reset();
      } else {
        is_used = true;
      }
    }
    window = is_used ? std::next(window) : windows_.erase(window);
  }
}

}  // namespace muonshard::ucx
