// Runs training steps under many schedules and looks for one that goes wrong.

#ifndef TOOLS_EXPLORER_EXPLORE_COMMAND_H_
#define TOOLS_EXPLORER_EXPLORE_COMMAND_H_

#include <iosfwd>
#include <span>

#include "absl/strings/string_view.h"

namespace muonshard {

// `arguments` without the program's name and the command. Returns the exit
// status: 0, every run held; 1, one did not; 2, the arguments are wrong. Called
// while the process has one thread.
int ExploreMain(std::span<const absl::string_view> arguments, std::ostream& out,
                std::ostream& errors);

}  // namespace muonshard

#endif  // TOOLS_EXPLORER_EXPLORE_COMMAND_H_
