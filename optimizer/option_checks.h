// Ranges of hyper-parameters.
//
// Errors     kInvalidArgument: "option <field>: want <range>, got <value>"

#ifndef OPTIMIZER_OPTION_CHECKS_H_
#define OPTIMIZER_OPTION_CHECKS_H_

#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muonshard {

absl::Status InvalidOption(absl::string_view field, absl::string_view want,
                           const absl::AlphaNum& got);

// Finite and > 0.
absl::Status CheckPositive(absl::string_view field, double value);

// The same of a value that is used as an f32, which must not round to 0.
absl::Status CheckPositiveFloat(absl::string_view field, double value);

// Finite and >= 0.
absl::Status CheckNotNegative(absl::string_view field, double value);

// In [0, 1).
absl::Status CheckBelowOne(absl::string_view field, double value);

// The first of `checks` that is an error.
absl::Status FirstError(std::initializer_list<absl::Status> checks);

}  // namespace muonshard

#endif  // OPTIMIZER_OPTION_CHECKS_H_
