// What holds of a run with faults, under every schedule.

#ifndef TESTING_EXPLORATION_FAULT_CHECKS_H_
#define TESTING_EXPLORATION_FAULT_CHECKS_H_

#include <vector>

#include "absl/status/status.h"
#include "plugins/loopback/fault_plan.h"
#include "testing/recovery/recovered_run.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"

namespace muonshard::testing {

// OK if
//   * the runtime found no fault of its own, and nothing is left in the plugin;
//   * no rank failed where all faults are ones that do no harm: a message that
//     comes twice, a call that is late by less than the timeout of a wait;
//   * a rank that died says so, and every other one that failed was told the
//     cause: with the code of the fault, or in the text of kAborted, and the
//     fault's rank is named; or all agree whose reduction failed, and that one
//     says why. Of a lost message the rank may go unnamed;
//   * no rank waited longer than the deadlines allow;
//   * the whole run has the bits of `undisturbed`, and where it was continued,
//     nobody waited for a deadline.
// Else kDataLoss or what the runtime found, naming the rank.
absl::Status CheckRecovered(const ShardedCase& sharded,
                            const std::vector<loopback::Fault>& faults,
                            const RecoveredRun& run,
                            const UnshardedRun& undisturbed);

}  // namespace muonshard::testing

#endif  // TESTING_EXPLORATION_FAULT_CHECKS_H_
