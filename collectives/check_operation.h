// What every collective refuses, with the same words for all plugins.

#ifndef COLLECTIVES_CHECK_OPERATION_H_
#define COLLECTIVES_CHECK_OPERATION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "collectives/capabilities.h"
#include "collectives/operation.h"
#include "topology/rank.h"

namespace muonshard {

// Checks buffers, counts, ranks, types and reductions.
absl::Status CheckOperation(const Operation& operation, Rank rank, int32_t size,
                            const Capabilities& capabilities);

}  // namespace muonshard

#endif  // COLLECTIVES_CHECK_OPERATION_H_
