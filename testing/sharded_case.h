// A whole optimizer run as a value: the same run sharded over ranks and
// unsharded on one, for tests that hold the two against each other.
//
// Gradients, first values and the order of check-ins are pure functions of the
// case's seed, the rank, the parameter, the step and the micro-batch.

#ifndef TESTING_SHARDED_CASE_H_
#define TESTING_SHARDED_CASE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/rank_harness.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard::testing {

struct ShardedCase {
  std::string mesh;
  std::vector<ParameterSpec> specs;
  OptimizerOptions options;
  int32_t steps = 2;
  int32_t micro_batches = 1;
  double clip_norm = 0;
  uint64_t seed = 0;
  // Whether `rank` has a gradient for parameter `p` in `step`, which counts
  // from 1. Absent function: always.
  std::function<bool(Rank rank, int32_t p, int64_t step)> has_gradient;
};

// Meshes of 1 to 8 ranks, all rules, modes and types; rows or columns of 1,
// more ranks than matrices, empty segments, one huge matrix.
ShardedCase RandomShardedCase(uint64_t seed);

// For a person who reads a failure.
std::string Describe(const ShardedCase& sharded);

using ParameterBytes = std::vector<std::byte>;

// Values of the gradient of one micro-batch, in the spec's gradient dtype.
ParameterBytes GradientOf(const ShardedCase& sharded, Rank rank, int32_t p,
                          int64_t step, int32_t micro_batch);
// The first values of a parameter: equal on all ranks where it is the same
// parameter, others where it lives apart.
ParameterBytes FirstValuesOf(const ShardedCase& sharded, const Mesh& mesh,
                             Rank rank, int32_t p);

struct ShardedRun {
  std::vector<absl::Status> results;  // In rank order.
  uint64_t trace_hash = 0;
  // [rank][parameter], after the last step.
  std::vector<std::vector<ParameterBytes>> parameters;
  std::vector<std::vector<StepOutcome>> outcomes;  // [rank][step - 1].
  std::vector<OptimizerStatistics> statistics;     // By rank.
};

// Runs the case on loopback.
ShardedRun RunSharded(const ShardedCase& sharded, const RuntimeCase& runtime);

// One step of `optimizer` for the program of `rank`: all check-ins in an order
// of the rank's own, Finish, Step.
absl::Status TakeStep(const ShardedCase& sharded, Rank rank, int64_t step,
                      ShardedOptimizer& optimizer);

// What every rank's parameters must be, [rank][parameter], and every outcome.
struct UnshardedRun {
  std::vector<std::vector<ParameterBytes>> parameters;
  std::vector<StepOutcome> outcomes;
};
absl::StatusOr<UnshardedRun> RunUnsharded(const ShardedCase& sharded);

}  // namespace muonshard::testing

#endif  // TESTING_SHARDED_CASE_H_
