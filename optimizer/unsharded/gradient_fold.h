// The canonical reduction of one parameter's gradients, in plain loops on one
// process.
//
// In this file
//   contribution  one rank's gradient of a step, over all its check-ins
//   call          one reduction of contributions: first of the ranks of each
//                 shard group, then, if there are several groups, of their
//                 results (replicas, and parts of one gradient)
//   level         a call on several hosts of several lanes folds the lanes of
//                 each host, then the hosts; any other call has one level
//   bucket type   the parameter's `gradient_dtype`; f32 for kAccumulate
//
// Numerics   Contribution: kCopyLast takes the one gradient as it is. kView and
//            kAccumulate start at zero and add check-ins in order, rounded to
//            the bucket type after each. A rank without a gradient contributes
//            zeros.
//            Level: results of the level before are converted to f32, folded
//            left to right, scaled once, rounded once to the bucket type.
//            Scale of a call: f32 is scaled by 1/divisor in the last call
//            alone. bf16 and f16 are scaled by 1/(ranks of the group) in the
//            first of two calls, and the rest of 1/divisor goes to the last.
//            Scale of a level, in a call of two whose scale is s: f32 by s at
//            the last alone; bf16 and f16 by 1/lanes, then by s lanes. Made in
//            fp64, rounded to f32 once.
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

// Borrowed elements of one rank's gradients, one run per check-in that adds.
using RankGradients = std::vector<const void*>;

// One parameter's gradients of one step, on all ranks that add to it.
struct LocalGradients {
  // Of every run. The bucket type, except for kAccumulate: any floating type.
  DataType dtype = DataType::kF32;
  // [shard group][rank of the group], in fold order. Groups have equal sizes.
  // Empty: no rank has a gradient.
  std::vector<std::vector<RankGradients>> groups;
  // How many ranks of each group, and how many groups, are on one host:
  // consecutive ones, of which there is a whole number of hosts. One level if
  // that is 0 (or not given), 1 or all.
  std::vector<int32_t> group_lanes;
  int32_t replica_lanes = 0;
};

// Whether no rank has a gradient.
bool IsAbsent(const LocalGradients& gradients);

// Returns the reduced gradient, in the bucket type.
absl::StatusOr<std::vector<std::byte>> FoldGradients(
    const ParameterSpec& spec, const LocalGradients& gradients,
    int64_t divisor);

}  // namespace muonshard

#endif  // OPTIMIZER_UNSHARDED_GRADIENT_FOLD_H_
