// The canonical reduction of one parameter's gradients, in plain loops on one
// process.
//
// In this file
//   contribution  one rank's gradient of a step, over all its micro-batches
//   level         ranks that are summed together: first the ranks of each shard
//                 group, then the groups, if there are several (replicas)
//   bucket type   the parameter's `gradient_dtype`; f32 for kAccumulate
//
// Numerics   Contribution: kCopyLast takes one gradient as it is. kView and
//            kAccumulate start at zero and add micro-batches in order, rounded
//            to the bucket type after each.
//            Level: contributions are converted to f32, folded left to right,
//            scaled once, rounded once to the bucket type. f32 is scaled by
//            1/divisor at the last level alone; bf16 and f16 by 1/(ranks of
//            the level), and the rest of the divisor goes to the last level.
//            A rank without a gradient contributes zeros.
// Errors     kInvalidArgument names the parameter, what was wanted and got.

#ifndef OPTIMIZER_UNSHARDED_GRADIENT_FOLD_H_
#define OPTIMIZER_UNSHARDED_GRADIENT_FOLD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/data_type.h"
#include "optimizer/parameter_spec.h"

namespace muonshard {

// Borrowed elements of one rank's gradients, one run per micro-batch.
using RankGradients = std::vector<const void*>;

// One parameter's gradients of one step, on all ranks that add to it.
struct LocalGradients {
  // Of every run. The bucket type, except for kAccumulate: any floating type.
  DataType dtype = DataType::kF32;
  // [shard group][rank of the group], in fold order. Groups have equal sizes.
  // Empty: no rank has a gradient.
  std::vector<std::vector<RankGradients>> groups;
};

// Whether no rank has a gradient.
bool IsAbsent(const LocalGradients& gradients);

// Returns the reduced gradient, in the bucket type.
absl::StatusOr<std::vector<std::byte>> FoldGradients(
    const ParameterSpec& spec, const LocalGradients& gradients,
    int64_t divisor);

}  // namespace muonshard

#endif  // OPTIMIZER_UNSHARDED_GRADIENT_FOLD_H_
