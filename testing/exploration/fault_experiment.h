// A run in which faults happen: whoever is left is told the cause, and goes on
// from copies to the bits of the run without faults. fault_checks.h has what is
// held.

#ifndef TESTING_EXPLORATION_FAULT_EXPERIMENT_H_
#define TESTING_EXPLORATION_FAULT_EXPERIMENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "testing/exploration/experiment.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"

namespace muonshard::testing {

// In place of a plan: each seed draws one fault, of any kind, at any operation
// of any rank.
inline constexpr absl::string_view kDrawnFaults = "draw";

// `faults`: a plan of loopback, or kDrawnFaults. `undisturbed` is what
// `sharded` must come to. Called while the process has one thread, which is
// forked.
//
// kInvalidArgument names the fault of a plan that cannot be read, one of a rank
// that is not there, and one at an operation that is never reached under the
// default schedule. kFailedPrecondition: the run does not hold without faults.
absl::StatusOr<std::unique_ptr<Experiment>> NewFaultExperiment(
    const ShardedCase& sharded, const UnshardedRun& undisturbed,
    const std::string& faults);

}  // namespace muonshard::testing

#endif  // TESTING_EXPLORATION_FAULT_EXPERIMENT_H_
