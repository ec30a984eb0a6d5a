// A run that recovers by itself from one fault of a rank, tried at each of the
// operations of its steps.

#ifndef TESTING_RECOVERY_FAULT_SWEEP_H_
#define TESTING_RECOVERY_FAULT_SWEEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "testing/rank_harness.h"
#include "testing/sharded_case.h"

namespace muonshard::testing {

struct FaultSweep {
  std::string kind;  // "abort", "memory", "corrupt" or "lose".
  int32_t rank = 0;
  // Every which operation; on threads a seventh of these.
  int64_t stride = 1;
};

// Expects of each run that it ends with the bits of an undisturbed one, that
// some ranks had to recover, and that each of these was told first of all that
// it was `sweep.rank`, or whose reduction failed because of it. `sharded`
// recovers. Returns what ranks were told.
std::vector<std::string> ExpectUndisturbed(const ShardedCase& sharded,
                                           const RuntimeCase& runtime,
                                           const FaultSweep& sweep);

}  // namespace muonshard::testing

#endif  // TESTING_RECOVERY_FAULT_SWEEP_H_
