// Starts the ranks of a job on this host; see tools/launcher.

#include <iostream>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/launcher/launch_main.h"

int main(int argc, char** argv) {
  const std::vector<absl::string_view> arguments(argv + 1, argv + argc);
  return muonshard::LaunchMain(arguments, std::cout, std::cerr);
}
