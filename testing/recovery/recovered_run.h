// A run that faults end, and a second one that goes on from copies of what
// every rank kept after the last step that was whole on all of them.

#ifndef TESTING_RECOVERY_RECOVERED_RUN_H_
#define TESTING_RECOVERY_RECOVERED_RUN_H_

#include <cstdint>
#include <string>

#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"

namespace muonshard::testing {

struct RecoveredRun {
  // With the faults. Its results say what every rank was told.
  ShardedRun disturbed;
  // Whether a rank failed, so that there was a second run.
  bool continued = false;
  // The step from the end of which all went on; 0: from the beginning.
  int64_t restored_step = 0;
  // All steps: the first ones as they were in the disturbed run.
  ShardedRun whole;
};

struct Disturbance {
  std::string faults;  // A plan of loopback.
  // Of loopback: operations that move at most so much are run by the last rank
  // to arrive.
  int64_t small_bytes = 64 * 1024;
};

// If no rank fails, `whole` is `disturbed`. Else the second run goes on with
// the scheduler of the first.
RecoveredRun RunAndRecover(const ShardedCase& sharded,
                           const RuntimeCase& runtime,
                           const Disturbance& disturbance);

}  // namespace muonshard::testing

#endif  // TESTING_RECOVERY_RECOVERED_RUN_H_
