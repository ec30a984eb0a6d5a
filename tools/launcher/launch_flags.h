// The flags of the launcher, and the program it starts.
//
// Errors       kInvalidArgument, as FlagTable's; also no program after "--",
//              and a store that is neither tcp, an address of tcp, nor a
//              folder.

#ifndef TOOLS_LAUNCHER_LAUNCH_FLAGS_H_
#define TOOLS_LAUNCHER_LAUNCH_FLAGS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/open_store.h"

namespace muonshard {

struct LaunchOptions {
  int32_t ranks = 1;
  // Port 0 is any that is free.
  StoreAddress store = {.host = "127.0.0.1"};
  bool prefix = true;  // Lines of output begin with the rank.
  bool keep_going = false;
  double grace_seconds = 5;
  // The program and its arguments.
  std::vector<std::string> command;
};

struct LaunchCommand {
  LaunchOptions options;
  bool help_wanted = false;
};

// `arguments` without the launcher's name.
absl::StatusOr<LaunchCommand> ParseLaunchFlags(
    std::span<const absl::string_view> arguments);

std::string LaunchHelp();

}  // namespace muonshard

#endif  // TOOLS_LAUNCHER_LAUNCH_FLAGS_H_
