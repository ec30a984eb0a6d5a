// One program, one command a word:
//
//   muonshard train    trains a byte-level GPT with the sharded optimizer
//   muonshard plan     shows how a model would be sharded
//   muonshard plugin   loads a plugin and shows what it promises
//   muonshard launch   starts the ranks of a program on this host
//   muonshard explore  runs training steps under many schedules

#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/explorer/explore_command.h"
#include "tools/launcher/launch_main.h"
#include "tools/trainer/plan_command.h"
#include "tools/trainer/plugin_command.h"
#include "tools/trainer/train_main.h"

namespace muonshard {
namespace {

using CommandMain = int (*)(std::span<const absl::string_view> arguments,
                            std::ostream& out, std::ostream& errors);

struct Command {
  absl::string_view name;
  absl::string_view help;
  CommandMain main;
};

constexpr Command kCommands[] = {
    {"train", "trains a byte-level GPT with the sharded optimizer", &TrainMain},
    {"plan", "shows how a model would be sharded", &PlanMain},
    {"plugin", "loads a plugin and shows what it promises", &PluginMain},
    {"launch", "starts the ranks of a program on this host", &LaunchMain},
    {"explore", "runs training steps under many schedules", &ExploreMain},
};

void ShowCommands(std::ostream& out) {
  out << "muonshard COMMAND [flags]; --help after a command lists its flags\n";
  for (const Command& command : kCommands) {
    out << "  " << command.name << std::string(9 - command.name.size(), ' ')
        << command.help << "\n";
  }
}

int Main(std::span<const absl::string_view> arguments) {
  if (arguments.empty()) {
    std::cerr << "muonshard: want a command, got none\n";
    ShowCommands(std::cerr);
    return 2;
  }
  for (const Command& command : kCommands) {
    if (arguments[0] == command.name) {
      return command.main(arguments.subspan(1), std::cout, std::cerr);
    }
  }
  if (arguments[0] == "help" || arguments[0] == "--help" ||
      arguments[0] == "-h") {
    ShowCommands(std::cout);
    return 0;
  }
  std::cerr << "muonshard: unknown command \"" << arguments[0] << "\"\n";
  ShowCommands(std::cerr);
  return 2;
}

}  // namespace
}  // namespace muonshard

int main(int argc, char** argv) {
  const std::vector<absl::string_view> arguments(argv + 1, argv + argc);
  return muonshard::Main(arguments);
}
