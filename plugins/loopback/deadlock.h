// Who waits for whom, and which of them wait for ever.
//
// In this file
//   stuck   a task that waits for an operation which lacks a post of a task
//           that is itself stuck
//
// A task that is not in a wait can still post, so whoever needs it alone is not
// stuck. What is left is a cycle of waits, and the waits that lead into one.

#ifndef PLUGINS_LOOPBACK_DEADLOCK_H_
#define PLUGINS_LOOPBACK_DEADLOCK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muonshard::loopback {

// One task in a wait. `lacks` are the tasks whose posts its operation lacks, in
// rank order; 0 stands for one of which nothing is known.
struct TaskWait {
  uint64_t task = 0;
  std::vector<uint64_t> lacks;
};

struct ClosedWaits {
  std::vector<size_t> stuck;  // Indices of waits, ascending.
  std::vector<size_t> cycle;  // Of these one cycle, each lacking the next.
};

// At most one wait per task.
ClosedWaits FindClosedWaits(std::span<const TaskWait> waits);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_DEADLOCK_H_
