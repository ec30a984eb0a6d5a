// `muonshard explore` alone, without the trainer and what it links.

#include <iostream>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/explorer/explore_command.h"

int main(int argc, char** argv) {
  const std::vector<absl::string_view> arguments(argv + 1, argv + argc);
  return muonshard::ExploreMain(arguments, std::cout, std::cerr);
}
