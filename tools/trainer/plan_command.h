// Shows how a model would be sharded, without running anything.

#ifndef TOOLS_TRAINER_PLAN_COMMAND_H_
#define TOOLS_TRAINER_PLAN_COMMAND_H_

#include <iosfwd>
#include <span>

#include "absl/strings/string_view.h"

namespace muonshard {

// `arguments` without the program's name and the command. Exit status as
// TrainMain's.
int PlanMain(std::span<const absl::string_view> arguments, std::ostream& out,
             std::ostream& errors);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_PLAN_COMMAND_H_
