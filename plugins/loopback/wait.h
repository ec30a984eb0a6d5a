// Waiting for a work, which moves it along, and the deadlocks of such waits.
//
// A deadlock is looked for whenever a task is about to sleep, since only that
// can close a cycle of waits. A wait counts if it is for ever, or for at least
// the option `poll_ms`, on an operation that lacks a post; see deadlock.h.

#ifndef PLUGINS_LOOPBACK_WAIT_H_
#define PLUGINS_LOOPBACK_WAIT_H_

#include <cstdint>

#include "plugins/loopback/outcome.h"
#include "plugins/loopback/work.h"

namespace muonshard::loopback {

// Returns when `work` has ended, with its outcome, or at the deadline, with
// MUONSHARD_WAIT_EXPIRED. Meanwhile runs shares of the group's operations.
Outcome WaitForWork(Work& work, int64_t deadline_ns);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_WAIT_H_
