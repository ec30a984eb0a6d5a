#include "plugins/loopback/deadlock.h"

#include <algorithm>

namespace muonshard::loopback {
namespace {

constexpr size_t kNone = SIZE_MAX;

// The first wait of a stuck task that `wait` lacks, or kNone.
size_t NextStuck(std::span<const TaskWait> waits, const TaskWait& wait,
                 const std::vector<bool>& stuck) {
  for (const uint64_t task : wait.lacks) {
    for (size_t i = 0; i < waits.size(); ++i) {
      if (stuck[i] && waits[i].task == task) return i;
    }
  }
  return kNone;
}

}  // namespace

ClosedWaits FindClosedWaits(std::span<const TaskWait> waits) {
  std::vector<bool> stuck(waits.size(), true);
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t i = 0; i < waits.size(); ++i) {
      if (!stuck[i] || NextStuck(waits, waits[i], stuck) != kNone) continue;
      stuck[i] = false;
      changed = true;
    }
  }
  ClosedWaits closed;
  for (size_t i = 0; i < waits.size(); ++i) {
    if (stuck[i]) closed.stuck.push_back(i);
  }
  if (closed.stuck.empty()) return closed;
  // Every stuck wait leads to another, so a walk comes round to where it was.
  std::vector<size_t>& walk = closed.cycle;
  size_t here = closed.stuck.front();
  while (std::find(walk.begin(), walk.end(), here) == walk.end()) {
    walk.push_back(here);
    here = NextStuck(waits, waits[here], stuck);
  }
  walk.erase(walk.begin(), std::find(walk.begin(), walk.end(), here));
  return closed;
}

}  // namespace muonshard::loopback
