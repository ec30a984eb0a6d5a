// Dynamic loss scaling, with the semantics and the state of
// torch.amp.GradScaler.
//
// A loss is multiplied by `scale` so that small gradients survive in f16. After
// a step whose gradients were not finite the scale is multiplied by the
// back-off factor; after `growth_interval` steps in a row whose gradients were,
// by the growth factor: in fp64, rounded to f32 once. A scale that would leave
// [kDynamicScaleMin, kDynamicScaleMax] stays. (torch's may become 0, which no
// step can be divided by, or the largest f32, over which few factors fit.)
//
//   model.Backward(scaler.scale());
//   ... Finish ...
//   optimizer.Step(std::move(gradients), {.loss_scale = scaler.scale()});
//   scaler.Update(*optimizer.Outcome());
//
// Every rank has its own, and as all are told the same outcome all stay equal;
// a step in which they differ fails on every rank. A step that failed has no
// outcome, says nothing about the scale and leaves it alone.
//
// Threads    Like an int.
// Errors     kInvalidArgument names the field, its range and what was got.

#ifndef OPTIMIZER_GRAD_SCALER_H_
#define OPTIMIZER_GRAD_SCALER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optimizer/step_options.h"

namespace muonshard {

// How far a scale may move by itself. A step fails, and so leaves the scale
// alone, if GradientFactorFits is false; within these bounds a scale cannot be
// why.
//   Growth    the clip factor over the scale must be at least 2^-129, so at
//             2^64 a clip factor may be as small as 2^-65, where a step without
//             a scale would lose nearly all of its gradients as well.
//   Back-off  f32 must hold the clipped gradients times 1. Those of f16 have a
//             norm of at most 2^16 sqrt(n), which over 2^-64 leaves room for
//             n = 2^94 elements; f32 and bf16 ones overflow at 2^-64 only if
//             the true gradients do too.
// A caller that sets StepOptions::loss_scale itself has the wider range there.
inline constexpr double kDynamicScaleMin = 0x1p-64;
inline constexpr double kDynamicScaleMax = 0x1p64;

struct GradScalerOptions {
  // In [kDynamicScaleMin, kDynamicScaleMax]; rounded to f32.
  double init_scale = 65536;
  double growth_factor = 2;        // > 1, finite
  double backoff_factor = 0.5;     // in (0, 1)
  int32_t growth_interval = 2000;  // >= 1
};

// What a checkpoint keeps.
struct GradScalerState {
  float scale = 65536;         // In [kDynamicScaleMin, kDynamicScaleMax]
  int32_t growth_tracker = 0;  // Good steps in a row; in [0, growth_interval)

  bool operator==(const GradScalerState&) const = default;
};

class GradScaler {
 public:
  static absl::StatusOr<GradScaler> Create(const GradScalerOptions& options);

  // What to multiply the loss of the next step by.
  double scale() const { return state_.scale; }

  // Takes note of a step that was taken or skipped, once. An outcome whose
  // gradients were finite counts as good.
  void Update(const StepOutcome& outcome);

  const GradScalerState& state() const { return state_; }
  // Leaves the scaler as it was on error.
  absl::Status Load(const GradScalerState& state);

 private:
  explicit GradScaler(const GradScalerOptions& options);

  GradScalerOptions options_;
  GradScalerState state_;
};

}  // namespace muonshard

#endif  // OPTIMIZER_GRAD_SCALER_H_
