// Faults as they happen to a rank.
//
// A rank that dies keeps running its program, so that its code unwinds, but
// nothing of it reaches a peer: what it had posted and what had not started is
// withdrawn, and each of its calls returns the fault. What had started ends
// for its peers as if nothing were wrong.

#ifndef PLUGINS_LOOPBACK_INJECTION_H_
#define PLUGINS_LOOPBACK_INJECTION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "plugins/loopback/communicator.h"
#include "plugins/loopback/domain.h"
#include "plugins/loopback/host.h"
#include "plugins/loopback/laboratory.h"
#include "plugins/loopback/outcome.h"
#include "plugins/loopback/work.h"

namespace muonshard::loopback {

// The rest wants the mutex held.

// Where in its program a rank is.
struct Place {
  int32_t program_rank = 0;
  uint64_t operation = 0;
  std::string what;  // "AllReduce \"w\" of group \"world\""
};
Place PlaceOf(const Work& work);

// Idempotent.
void Kill(Laboratory& laboratory, const Place& place);

// Blocks for so long.
void Delay(HostLock& lock, Domain& domain, int64_t ns);

// Starts a task that aborts the group of `communicator`.
void AbortFromAnotherTask(HostLock& lock,
                          const std::shared_ptr<Communicator>& communicator,
                          const Place& place);

// Counts an operation of `rank` other than a post, and lets happen what comes
// before it. OK, or what the call returns; memory that is not found is
// std::bad_alloc.
Outcome BeginOperation(HostLock& lock, Domain& domain, Laboratory& laboratory,
                       int32_t program_rank, const std::string& what,
                       Fate* fate);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_INJECTION_H_
