// The runtime of real programs: threads of the operating system and the
// monotonic clock, shown as absl::Time from the wall clock of its creation on,
// so that a change of the wall clock moves no deadline.

#ifndef COLLECTIVES_RUNTIME_THREADS_RUNTIME_H_
#define COLLECTIVES_RUNTIME_THREADS_RUNTIME_H_

#include <memory>

#include "collectives/runtime/runtime.h"

namespace muonshard {

std::unique_ptr<Runtime> NewThreadsRuntime();

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_THREADS_RUNTIME_H_
