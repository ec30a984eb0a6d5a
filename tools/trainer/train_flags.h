// The flags of the training program.
//
// Errors       kInvalidArgument, as FlagTable's; also a mesh that is wrong or
//              has another size than --ranks, --ranks that are not as many as
//              the job of this process has, one file for two of data and
//              outputs, and a model shape that is refused.

#ifndef TOOLS_TRAINER_TRAIN_FLAGS_H_
#define TOOLS_TRAINER_TRAIN_FLAGS_H_

#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/job_place.h"
#include "tools/trainer/train_options.h"

namespace muonshard {

struct TrainCommand {
  TrainOptions options;
  bool help_wanted = false;
};

// `arguments` without the program's name. `place` is that of this process in a
// job, if a launcher started it.
absl::StatusOr<TrainCommand> ParseTrainFlags(
    std::span<const absl::string_view> arguments,
    std::optional<JobPlace> place = std::nullopt);

std::string TrainHelp();

}  // namespace muonshard

#endif  // TOOLS_TRAINER_TRAIN_FLAGS_H_
