// Some training steps of the sharded optimizer, held against the unsharded
// one, bit for bit.

#ifndef TESTING_EXPLORATION_STEP_EXPERIMENT_H_
#define TESTING_EXPLORATION_STEP_EXPERIMENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "testing/combination/combination.h"
#include "testing/exploration/experiment.h"

namespace muonshard::testing {

struct StepExperimentOptions {
  // Mesh, hosts and combination are drawn from the seed, and the ones below are
  // not looked at; at times a hook fires once too often.
  bool vary = false;
  std::string mesh = "data=4,tp=2";
  int32_t lanes_per_node = 4;
  Combination combination = {.overlap = true,
                             .hierarchy = Hierarchy::kOn,
                             .scaler = true,
                             .micro_batches = 2,
                             .gather = GatherMode::kLazy,
                             .release_gradients = true};
  // Not empty: what fault_experiment.h takes. Without `vary`, and without a
  // step that fails by itself.
  std::string faults = "";
};

// kInvalidArgument for a mesh that is none, or what the optimizer refuses, and
// for faults as fault_experiment.h says.
absl::StatusOr<std::unique_ptr<Experiment>> NewStepExperiment(
    const StepExperimentOptions& options);

}  // namespace muonshard::testing

#endif  // TESTING_EXPLORATION_STEP_EXPERIMENT_H_
