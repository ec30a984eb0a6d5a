// What goes into a step, and what becomes of it.

#ifndef OPTIMIZER_STEP_OPTIONS_H_
#define OPTIMIZER_STEP_OPTIONS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>

namespace muonshard {

// What a loss may be multiplied by: f32 holds it, and its reciprocal, as normal
// numbers (the reciprocal of the two largest powers of two as an exact one).
inline constexpr double kLossScaleMin = std::numeric_limits<float>::min();
inline constexpr double kLossScaleMax = std::numeric_limits<float>::max();

// What may change from step to step; finite, >= 0 and the same on all ranks, or
// the step fails on all.
struct StepOptions {
  // Largest norm of all gradients together; larger ones are scaled down to it.
  // 0: no clip.
  double clip_norm = 0;
  // Instead of those in OptimizerOptions. With its scale and its schedule's
  // factor no parameter's rate may be above kLearningRateMax; see
  // step_fields.h.
  std::optional<double> muon_learning_rate;
  std::optional<double> adamw_learning_rate;
  // What multiplies the learning rates of the parameters of a schedule; 1 for
  // one that is not listed. A name that no parameter's spec has is an error.
  std::map<std::string, double> schedule_factors;
  // What the caller multiplied its loss by; in [kLossScaleMin, kLossScaleMax].
  // Gradients are divided by it before the norm and all else.
  double loss_scale = 1;
};

// What became of a step, on all ranks alike.
struct StepOutcome {
  int64_t step = 0;
  bool updated = false;  // False: skipped, all bits kept.
  // Of the averaged gradients, after the loss scale and before clip; see
  // compute/gradient_norm.h. Without the elements that are not finite.
  double gradient_norm = 0;
  double clip_factor = 1;
  int64_t non_finite_count = 0;  // Elements; more than 0 skips the step.
};

}  // namespace muonshard

#endif  // OPTIMIZER_STEP_OPTIONS_H_
