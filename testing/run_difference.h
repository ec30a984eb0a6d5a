// The first difference between a sharded run and what it must be.

#ifndef TESTING_RUN_DIFFERENCE_H_
#define TESTING_RUN_DIFFERENCE_H_

#include "absl/status/status.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"

namespace muonshard::testing {

// OK if on every rank the parameters, each step's outcome (with the global
// norm) or the code of its error, and the scaler have the bits of `want`. Else
// kDataLoss, naming rank, step or parameter, and what was wanted and got. First
// of all comes what ended a rank's run.
absl::Status CheckSameRun(const ShardedCase& sharded, const ShardedRun& got,
                          const UnshardedRun& want);

}  // namespace muonshard::testing

#endif  // TESTING_RUN_DIFFERENCE_H_
