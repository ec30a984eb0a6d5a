// Runs one program per rank of a group that lives in one process.

#ifndef COLLECTIVES_RUNTIME_RANK_TASKS_H_
#define COLLECTIVES_RUNTIME_RANK_TASKS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "collectives/runtime/runtime.h"
#include "topology/rank.h"

namespace muonshard {

// Starts `program(r)` on a task of its own for each rank r in [0, size), joins
// all and returns their results in rank order.
std::vector<absl::Status> RunRanks(
    Runtime& runtime, int32_t size,
    const std::function<absl::Status(Rank)>& program);

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_RANK_TASKS_H_
