// The units of Muon parameters: what has one owner.
//
// Errors     kInvalidArgument  the units cost too much to count in int64_t;
//                              names the parameter

#ifndef OPTIMIZER_UNIT_H_
#define OPTIMIZER_UNIT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/data_type.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"

namespace muonshard {

struct Unit {
  int32_t parameter = 0;
  int64_t offset = 0;  // In the parameter, in elements.
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t flops = 0;        // Of its blocks of columns together, per step.
  int64_t state_bytes = 0;  // Of all its elements, and moments of rows.
  int64_t scratch_bytes = 0;
  int32_t owner = 0;  // Group rank.

  int64_t count() const { return rows * cols; }
};

// Of the optimizer state: f32 momentum, or two f32 moments, and for a 16-bit
// parameter its f32 master if there are masters.
int64_t StateBytesPerElement(Rule rule, DataType parameter_dtype,
                             bool master_weights);

// All units of `specs`, which are valid: by parameter, then by offset. Owners
// are left at 0.
absl::StatusOr<std::vector<Unit>> ListUnits(
    const std::vector<ParameterSpec>& specs, const OptimizerOptions& options);

}  // namespace muonshard

#endif  // OPTIMIZER_UNIT_H_
