// What goes into a step, and what becomes of it.

#ifndef OPTIMIZER_STEP_OPTIONS_H_
#define OPTIMIZER_STEP_OPTIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

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
  // What multiplies the learning rates of the parameters of a schedule; 1 for
  // one that is not listed. Names are those in the parameters' specs.
  std::map<std::string, double> schedule_factors;
  // What the caller multiplied its loss by; > 0. Gradients are divided by it
  // before the norm and all else.
  double loss_scale = 1;
};

// What became of a step, on all ranks alike.
struct StepOutcome {
  int64_t step = 0;
  bool updated = false;  // False: skipped, all bits kept.
  // Exact, of the averaged gradients, after the loss scale and before clip.
  double gradient_norm = 0;
  double clip_factor = 1;
  int64_t non_finite_count = 0;  // Elements; more than 0 skips the step.
};

}  // namespace muonshard

#endif  // OPTIMIZER_STEP_OPTIONS_H_
