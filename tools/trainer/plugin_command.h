// Loads a plugin and shows what it is and promises.

#ifndef TOOLS_TRAINER_PLUGIN_COMMAND_H_
#define TOOLS_TRAINER_PLUGIN_COMMAND_H_

#include <iosfwd>
#include <span>

#include "absl/strings/string_view.h"

namespace muonshard {

// `arguments` without the program's name and the command. Exit status as
// TrainMain's.
int PluginMain(std::span<const absl::string_view> arguments, std::ostream& out,
               std::ostream& errors);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_PLUGIN_COMMAND_H_
