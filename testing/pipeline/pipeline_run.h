// Training of a small model by a real pipeline: one rank per stage and data
// coordinate, activations and their gradients by Send and Recv, weights by the
// sharded optimizer; and the same training on one process.
//
// Parameters   chunkC.weight and chunkC.bias live apart on each stage; the
//              embedding is used by the first stage and, tied, by the last,
//              which each have a part of its gradient; head.bias lives on the
//              last stage alone.

#ifndef TESTING_PIPELINE_PIPELINE_RUN_H_
#define TESTING_PIPELINE_PIPELINE_RUN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/sharded_optimizer.h"
#include "optimizer/step_options.h"
#include "testing/pipeline/schedule.h"
#include "testing/rank_harness.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard::testing {

struct PipelineCase {
  // Has the axes "pp", of at least two stages, and "data".
  std::string mesh;
  int32_t chunks = 1;
  int32_t micro_batches = 1;
  int64_t steps = 2;
  double clip_norm = 0;
  OptimizerOptions options;
  uint64_t seed = 1;
  // Ranks that share a pretended host, in rank order. They divide "data", which
  // is the last axis. 0: all.
  int32_t lanes_per_host = 0;
  // Called before each Finish of a rank. Absent function: nothing.
  std::function<absl::Status(Rank rank, int64_t step,
                             ShardedOptimizer& optimizer)>
      before_finish;
};

std::vector<ParameterSpec> PipelineSpecs(const PipelineCase& pipeline);

struct PipelineRun {
  std::vector<absl::Status> results;  // In rank order.
  // [rank][parameter]; empty where the parameter does not live.
  std::vector<std::vector<std::vector<float>>> parameters;
  std::vector<std::vector<StepOutcome>> outcomes;  // [rank][step - 1].
};

// Runs the case on loopback, stages in the order of `OneForwardOneBackward`.
PipelineRun RunPipeline(const PipelineCase& pipeline,
                        const RuntimeCase& runtime);

// The same without ranks, plan, buckets or messages.
absl::StatusOr<PipelineRun> RunWhole(const PipelineCase& pipeline);

}  // namespace muonshard::testing

#endif  // TESTING_PIPELINE_PIPELINE_RUN_H_
