// What one rank gives its sharded optimizer, and what it can read from it,
// besides what all ranks declare alike.

#ifndef OPTIMIZER_OPTIMIZER_ENVIRONMENT_H_
#define OPTIMIZER_OPTIMIZER_ENVIRONMENT_H_

#include <cstdint>
#include <string>

#include "collectives/collective.h"
#include "optimizer/step_trace.h"

namespace muonshard {

struct OptimizerEnvironment {
  StepTraceSink trace;
  // The identity of the own host. Empty: LocalHostId().
  std::string host_id;
  // Other groups of the ranks of `world`, of any plugin, from which the host
  // and lane levels of hierarchical groups are split; they outlive the
  // optimizer. Null: `world`. Null or not alike on all ranks.
  Collective* host_level_world = nullptr;
  Collective* lane_level_world = nullptr;
};

// Since creation, on this rank.
struct OptimizerStatistics {
  // Payload sent to reduce and to gather, by the plugins' counters.
  uint64_t bucket_bytes_sent = 0;
  uint64_t control_bytes_sent = 0;
  // Gradients that a kView parameter had elsewhere at check-in.
  int64_t view_misses = 0;
  // Memory of gradient buckets that is held at this moment.
  int64_t gradient_bytes_held = 0;
};

}  // namespace muonshard

#endif  // OPTIMIZER_OPTIMIZER_ENVIRONMENT_H_
