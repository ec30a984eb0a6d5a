// A ShardedCase in fp64, and how far from it a run may be.

#ifndef TESTING_REFERENCE_RUN_H_
#define TESTING_REFERENCE_RUN_H_

#include <vector>

#include "absl/status/statusor.h"
#include "testing/reference_optimizer.h"
#include "testing/sharded_case.h"

namespace muonshard::testing {

struct ReferenceRun {
  // [rank][parameter][element], after the last step; empty where it does not
  // live.
  std::vector<std::vector<std::vector<double>>> parameters;
  // One per step; the default outcome of a step that failed.
  std::vector<ReferenceOutcome> outcomes;
};

absl::StatusOr<ReferenceRun> RunReference(const ShardedCase& sharded);

// The largest Frobenius norm of the difference between a parameter's final
// values and those of the reference, for a case whose gradients are exact sums.
double ReferenceBound(const ShardedCase& sharded, const ParameterSpec& spec);

}  // namespace muonshard::testing

#endif  // TESTING_REFERENCE_RUN_H_
