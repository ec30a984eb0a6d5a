// The training program as a function: flags, and the variables of a launcher,
// in, exit status out.

#ifndef TOOLS_TRAINER_TRAIN_MAIN_H_
#define TOOLS_TRAINER_TRAIN_MAIN_H_

#include <iosfwd>
#include <span>

#include "absl/strings/string_view.h"
#include "tools/trainer/train_options.h"

namespace muonshard {

// Trains and writes the output files. Returns 0 on success and 1 after an
// error, which is one line on `errors`. Bits that --verify finds to differ are
// an error too, once the files are written.
int RunTraining(const TrainOptions& options, std::ostream& out,
                std::ostream& errors);

// `arguments` without the program's name. Returns 2 after wrong flags or wrong
// variables of a launcher, which are one line on `errors`, else as RunTraining.
int TrainMain(std::span<const absl::string_view> arguments, std::ostream& out,
              std::ostream& errors);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_TRAIN_MAIN_H_
