// The training program as a function: flags in, exit status out.

#ifndef TOOLS_TRAINER_TRAIN_MAIN_H_
#define TOOLS_TRAINER_TRAIN_MAIN_H_

#include <iosfwd>
#include <span>

#include "absl/strings/string_view.h"

namespace muonshard {

// `arguments` without the program's name. Returns 0 on success; 2 after wrong
// flags and 1 after any other error, which is one line on `errors`.
int TrainMain(std::span<const absl::string_view> arguments, std::ostream& out,
              std::ostream& errors);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_TRAIN_MAIN_H_
