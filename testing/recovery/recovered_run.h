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
  // The step from the end of which all went on; 0: from the beginning.
  int64_t restored_step = 0;
  // All steps: the first ones as they were in the disturbed run.
  ShardedRun whole;
};

// `faults`: a plan of loopback. If no rank fails, `whole` is `disturbed`.
RecoveredRun RunAndRecover(const ShardedCase& sharded,
                           const RuntimeCase& runtime,
                           const std::string& faults);

}  // namespace muonshard::testing

#endif  // TESTING_RECOVERY_RECOVERED_RUN_H_
