// Refuses the simulated runtime, for what waits in the system and not through
// the runtime.
//
// A task of a simulated runtime is no thread, so that one that waits in the
// system stops all, and its clock does not move meanwhile.

#ifndef COLLECTIVES_TCP_REAL_TIME_H_
#define COLLECTIVES_TCP_REAL_TIME_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "collectives/runtime/runtime.h"

namespace muonshard {

// kUnimplemented, naming `who`, if tasks of `runtime` are no threads.
absl::Status CheckRealTime(Runtime& runtime, absl::string_view who);

}  // namespace muonshard

#endif  // COLLECTIVES_TCP_REAL_TIME_H_
