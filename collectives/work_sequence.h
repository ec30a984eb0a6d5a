// Several works as one: the levels of a call.

#ifndef COLLECTIVES_WORK_SEQUENCE_H_
#define COLLECTIVES_WORK_SEQUENCE_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collectives/runtime/runtime.h"
#include "collectives/work.h"

namespace muonshard {

// A work that ends when all of `levels` have, because the buffers of the call
// are in use until then. Its status is the first error in their order; where
// they have none it is `end`, which is what kept later levels from starting.
Work SequenceOf(Runtime& runtime, std::vector<Work> levels, absl::Status end);

// A work that has ended with `error`.
inline Work FailedWork(Runtime& runtime, absl::Status error) {
  return SequenceOf(runtime, {}, std::move(error));
}

}  // namespace muonshard

#endif  // COLLECTIVES_WORK_SEQUENCE_H_
