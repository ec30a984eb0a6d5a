#include "tools/trainer/train_main.h"

#include <optional>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "collectives/job_place.h"
#include "tools/trainer/train_flags.h"
#include "tools/trainer/trainer.h"

namespace muonshard {

int RunTraining(const TrainOptions& options, std::ostream& out,
                std::ostream& errors) {
  const absl::StatusOr<TrainResult> result = Train(
      options, [&out](const std::string& text) { out << text << std::flush; });
  if (!result.ok()) {
    errors << "train: " << result.status().message() << "\n";
    return 1;
  }
  if (result->verify_different_count != 0) {
    errors << "train: verify: " << result->verify_different_count
           << " elements differ in their bits from the unsharded optimizer's\n";
    return 1;
  }
  return 0;
}

int TrainMain(std::span<const absl::string_view> arguments, std::ostream& out,
              std::ostream& errors) {
  const absl::StatusOr<std::optional<JobPlace>> place =
      FindJobPlace(ProcessVariable, IdsOfThisProcess());
  if (!place.ok()) {
    errors << "train: " << place.status().message() << "\n";
    return 2;
  }
  const absl::StatusOr<TrainCommand> command =
      ParseTrainFlags(arguments, *place);
  if (!command.ok()) {
    errors << "train: " << command.status().message() << "\n";
    return 2;
  }
  if (command->help_wanted) {
    out << TrainHelp();
    return 0;
  }
  return RunTraining(command->options, out, errors);
}

}  // namespace muonshard
