// Runs training steps under many schedules and looks for one that goes wrong.

#ifndef TOOLS_EXPLORER_EXPLORE_COMMAND_H_
#define TOOLS_EXPLORER_EXPLORE_COMMAND_H_

#include <functional>
#include <iosfwd>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "testing/exploration/experiment.h"
#include "testing/exploration/step_experiment.h"

namespace muonshard {

// `arguments` without the program's name and the command. Returns the exit
// status: 0, every run held; 1, one did not; 2, the arguments are wrong, or a
// trace could not be written. Called
// while the process has one thread.
int ExploreMain(std::span<const absl::string_view> arguments, std::ostream& out,
                std::ostream& errors);

// The same with another experiment in place of NewStepExperiment.
using ExperimentFactory =
    std::function<absl::StatusOr<std::unique_ptr<testing::Experiment>>(
        const testing::StepExperimentOptions&)>;
int ExploreWith(const ExperimentFactory& new_experiment,
                std::span<const absl::string_view> arguments, std::ostream& out,
                std::ostream& errors);

}  // namespace muonshard

#endif  // TOOLS_EXPLORER_EXPLORE_COMMAND_H_
