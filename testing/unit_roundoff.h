// What one rounding may change: tolerances of tests are multiples of it.

#ifndef TESTING_UNIT_ROUNDOFF_H_
#define TESTING_UNIT_ROUNDOFF_H_

#include "collectives/data_type.h"

namespace muonshard::testing {

// The largest relative error of a number that is rounded to the nearest of this
// type and is neither too large nor too small for it; 0 for integers.
constexpr double UnitRoundoff(DataType type) {
  switch (type) {
    case DataType::kBF16:
      return 0x1p-8;
    case DataType::kF16:
      return 0x1p-11;
    case DataType::kF32:
      return 0x1p-24;
    case DataType::kF64:
      return 0x1p-53;
    case DataType::kI32:
    case DataType::kI64:
    case DataType::kU8:
      return 0;
  }
  return 0;
}

inline constexpr double kF32Roundoff = UnitRoundoff(DataType::kF32);

}  // namespace muonshard::testing

#endif  // TESTING_UNIT_ROUNDOFF_H_
