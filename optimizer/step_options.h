// What goes into a step, and what becomes of it.

#ifndef OPTIMIZER_STEP_OPTIONS_H_
#define OPTIMIZER_STEP_OPTIONS_H_

#include <cstdint>
#include <optional>

namespace muonshard {

// What may change from step to step; finite, >= 0 and the same on all ranks, or
// the step fails on all.
struct StepOptions {
  // Largest norm of all gradients together; larger ones are scaled down to it.
  // 0: no clip.
  double clip_norm = 0;
  // Instead of those in OptimizerOptions.
  std::optional<double> muon_learning_rate;
  std::optional<double> adamw_learning_rate;
};

// What became of a step, on all ranks alike.
struct StepOutcome {
  int64_t step = 0;
  bool updated = false;      // False: skipped, all bits kept.
  double gradient_norm = 0;  // Exact, of the averaged gradients, before clip.
  double clip_factor = 1;
  int64_t non_finite_count = 0;  // Elements; more than 0 skips the step.
};

}  // namespace muonshard

#endif  // OPTIMIZER_STEP_OPTIONS_H_
