// A run of the optimizer with a dynamic loss scale, step by step: sharded over
// ranks, and unsharded on one, with all state after every step.
//
// Gradients are pure functions of the step's seed, the rank and the parameter,
// times the loss scale, in the type that is checked in; so a run without one
// step has the other steps of a run that has it.

#ifndef TESTING_SCALED_RUN_H_
#define TESTING_SCALED_RUN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/data_type.h"
#include "optimizer/grad_scaler.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/step_options.h"
#include "testing/rank_harness.h"
#include "topology/host_map.h"
#include "topology/mesh.h"

namespace muonshard::testing {

// One element too many for its type, on one rank.
struct Overflow {
  int32_t rank = 0;
  int32_t parameter = 0;
};

struct ScaledStep {
  uint64_t seed = 0;
  // Its loss scale is the scaler's if `own_scale` is not set.
  StepOptions options;
  bool own_scale = false;
  std::optional<Overflow> overflow;
};

struct ScaledCase {
  std::string mesh;
  int32_t lanes_per_host = 0;  // 0: one host.
  std::vector<ParameterSpec> specs;
  OptimizerOptions options;
  GradScalerOptions scaler;
  std::vector<ScaledStep> steps;
  // Checked in for kAccumulate; others check in their gradient_dtype.
  DataType accumulated_dtype = DataType::kF32;
};

using Bytes = std::vector<std::byte>;

// What there is after a step. A parameter that does not live on the rank has no
// values.
struct AfterStep {
  StepOutcome outcome;
  GradScalerState scaler;
  std::vector<Bytes> parameters;
  // Step count, moments, masters and where they lie.
  std::vector<Bytes> states;
};

HostMap HostsOf(const ScaledCase& scaled, const Mesh& mesh);

struct ScaledRun {
  std::vector<absl::Status> results;          // In rank order.
  std::vector<std::vector<AfterStep>> ranks;  // [rank][step]
};
ScaledRun RunScaled(const ScaledCase& scaled, const RuntimeCase& runtime);

// The same on one process; every rank's parameters, without states.
absl::StatusOr<std::vector<std::vector<AfterStep>>> RunScaledUnsharded(
    const ScaledCase& scaled);

}  // namespace muonshard::testing

#endif  // TESTING_SCALED_RUN_H_
