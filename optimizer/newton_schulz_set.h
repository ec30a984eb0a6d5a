// Named lists of coefficients of the Newton-Schulz iteration
// X <- a X + (b A + c A A) X with A = X X^T, one triple a step.
//
// A step takes each singular value s to a s + b s^3 + c s^5. What a set makes
// of singular values in [0, 1] is in optimizer/newton_schulz_set_test.cc.

#ifndef OPTIMIZER_NEWTON_SCHULZ_SET_H_
#define OPTIMIZER_NEWTON_SCHULZ_SET_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muonshard {

struct NewtonSchulzCoefficients {
  double a = 0;
  double b = 0;
  double c = 0;
};

enum class NewtonSchulzSet : uint8_t {
  kSimple,
  kQuintic,
  kPolarExpress,
  kAol,
  kDeepSeekV4,
  kCustom,  // Of the user, in MuonOptions.
};

// A row of the table of sets.
struct CoefficientSet {
  NewtonSchulzSet set = NewtonSchulzSet::kCustom;
  absl::string_view name;
  absl::string_view source;
  // As the source has them; none for kCustom.
  std::span<const NewtonSchulzCoefficients> coefficients;
};

// All rows, in the order of the enumeration.
std::span<const CoefficientSet> CoefficientSets();

// The row of `set`; that of kCustom for a value outside the enumeration.
const CoefficientSet& CoefficientSetOf(NewtonSchulzSet set);

// kInvalidArgument lists the names that there are.
absl::StatusOr<NewtonSchulzSet> NewtonSchulzSetByName(absl::string_view name);

}  // namespace muonshard

#endif  // OPTIMIZER_NEWTON_SCHULZ_SET_H_
