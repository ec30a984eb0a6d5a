#include "optimizer/grad_scaler.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muonshard {
namespace {

absl::Status Invalid(absl::string_view field, absl::string_view want,
                     const absl::AlphaNum& got) {
  return absl::InvalidArgumentError(
      absl::StrCat("grad scaler ", field, ": want ", want, ", got ", got));
}

bool IsScale(double scale) {
  return scale >= kDynamicScaleMin && scale <= kDynamicScaleMax;
}

std::string ScaleRange() {
  return absl::StrCat("in [", kDynamicScaleMin, ", ", kDynamicScaleMax, "]");
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options),
      state_{.scale = static_cast<float>(options.init_scale),
             .growth_tracker = 0} {}

absl::StatusOr<GradScaler> GradScaler::Create(
    const GradScalerOptions& options) {
  // NaN fails each comparison, so the ranges are asked for and not their
  // complements.
  if (!IsScale(options.init_scale)) {
    return Invalid("init_scale", ScaleRange(), options.init_scale);
  }
  if (!(options.growth_factor > 1 && std::isfinite(options.growth_factor))) {
    return Invalid("growth_factor", "finite and > 1", options.growth_factor);
  }
  if (!(options.backoff_factor > 0 && options.backoff_factor < 1)) {
    return Invalid("backoff_factor", "in (0, 1)", options.backoff_factor);
  }
  if (options.growth_interval < 1) {
    return Invalid("growth_interval", ">= 1", options.growth_interval);
  }
  return GradScaler(options);
}

void GradScaler::Update(const StepOutcome& outcome) {
  const bool found_infinite = outcome.non_finite_count > 0;
  if (!found_infinite && ++state_.growth_tracker < options_.growth_interval) {
    return;
  }
  state_.growth_tracker = 0;
  const double factor =
      found_infinite ? options_.backoff_factor : options_.growth_factor;
  const float moved = static_cast<float>(state_.scale * factor);
  if (IsScale(moved)) state_.scale = moved;
}

absl::Status GradScaler::Load(const GradScalerState& state) {
  if (!IsScale(state.scale)) {
    return Invalid("scale", ScaleRange(), state.scale);
  }
  if (state.growth_tracker < 0 ||
      state.growth_tracker >= options_.growth_interval) {
    return Invalid("growth_tracker",
                   absl::StrCat("in [0, ", options_.growth_interval, ")"),
                   state.growth_tracker);
  }
  state_ = state;
  return absl::OkStatus();
}

}  // namespace muonshard
