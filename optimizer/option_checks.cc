#include "optimizer/option_checks.h"

#include <cmath>
#include <limits>

namespace muonshard {

absl::Status InvalidOption(absl::string_view field, absl::string_view want,
                           const absl::AlphaNum& got) {
  return absl::InvalidArgumentError(
      absl::StrCat("option ", field, ": want ", want, ", got ", got));
}

// NaN fails each comparison, so the ranges are asked for and not their
// complements.
absl::Status CheckPositive(absl::string_view field, double value) {
  if (value > 0 && std::isfinite(value)) return absl::OkStatus();
  return InvalidOption(field, "finite and > 0", value);
}

absl::Status CheckPositiveFloat(absl::string_view field, double value) {
  if (value > std::numeric_limits<float>::max()) {
    return InvalidOption(field, "finite and > 0 as an f32", value);
  }
  if (absl::Status s = CheckPositive(field, value); !s.ok()) return s;
  if (static_cast<float>(value) > 0) return absl::OkStatus();
  return InvalidOption(field, "finite and > 0 as an f32", value);
}

absl::Status CheckNotNegative(absl::string_view field, double value) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return InvalidOption(field, "finite and >= 0", value);
}

absl::Status CheckBelowOne(absl::string_view field, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return InvalidOption(field, "in [0, 1)", value);
}

absl::Status FirstError(std::initializer_list<absl::Status> checks) {
  for (const absl::Status& check : checks) {
    if (!check.ok()) return check;
  }
  return absl::OkStatus();
}

}  // namespace muonshard
