// Trains a byte-level GPT with the sharded optimizer; see tools/trainer.

#include <iostream>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/trainer/train_main.h"

int main(int argc, char** argv) {
  const std::vector<absl::string_view> arguments(argv + 1, argv + argc);
  return muonshard::TrainMain(arguments, std::cout, std::cerr);
}
