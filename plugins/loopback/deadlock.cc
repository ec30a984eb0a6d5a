#include "plugins/loopback/deadlock.h"

#include <algorithm>
#include <unordered_map>

namespace muonshard::loopback {
namespace {

constexpr size_t kNone = SIZE_MAX;

using WaitByTask = std::unordered_map<uint64_t, size_t>;

// The first wait of a stuck task that `wait` lacks, or kNone.
size_t NextStuck(const WaitByTask& wait_of, const TaskWait& wait,
                 const std::vector<bool>& stuck) {
  for (const uint64_t task : wait.lacks) {
    const auto found = wait_of.find(task);
    if (found != wait_of.end() && stuck[found->second]) return found->second;
  }
  return kNone;
}

}  // namespace

ClosedWaits FindClosedWaits(std::span<const TaskWait> waits) {
  WaitByTask wait_of;
  for (size_t i = 0; i < waits.size(); ++i) wait_of.emplace(waits[i].task, i);
  std::vector<bool> stuck(waits.size(), true);
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t i = 0; i < waits.size(); ++i) {
      if (!stuck[i] || NextStuck(wait_of, waits[i], stuck) != kNone) continue;
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
    here = NextStuck(wait_of, waits[here], stuck);
  }
  walk.erase(walk.begin(), std::find(walk.begin(), walk.end(), here));
  return closed;
}

}  // namespace muonshard::loopback
