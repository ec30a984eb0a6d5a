// What of a sharded optimizer outlives its groups: the plan, the buckets, the
// optimizer state and the bound parameters of one rank.

#ifndef OPTIMIZER_OPTIMIZER_MEMORY_H_
#define OPTIMIZER_OPTIMIZER_MEMORY_H_

#include <cstdint>
#include <utility>

#include "collectives/runtime/runtime.h"
#include "optimizer/bucket_buffers.h"
#include "optimizer/options.h"
#include "optimizer/plan.h"
#include "optimizer/segment_update.h"
#include "topology/rank.h"

namespace muonshard {

struct OptimizerMemory {
  // `runtime` outlives it.
  OptimizerMemory(Plan agreed_plan, Rank own_rank,
                  const OptimizerOptions& own_options, Runtime& runtime)
      : options(own_options),
        plan(std::move(agreed_plan)),
        rank(own_rank),
        buffers(plan, rank),
        segments(runtime, options, buffers) {}
  OptimizerMemory(const OptimizerMemory&) = delete;
  OptimizerMemory& operator=(const OptimizerMemory&) = delete;

  const OptimizerOptions options;
  const Plan plan;
  const Rank rank;  // In the world.
  BucketBuffers buffers;
  SegmentUpdater segments;
  int64_t restored_step = 0;  // See ShardedOptimizer::RestoreStep.
};

}  // namespace muonshard

#endif  // OPTIMIZER_OPTIMIZER_MEMORY_H_
