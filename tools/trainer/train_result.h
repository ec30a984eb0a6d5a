// What a training run measured.

#ifndef TOOLS_TRAINER_TRAIN_RESULT_H_
#define TOOLS_TRAINER_TRAIN_RESULT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/trainer/group_summary.h"
#include "tools/trainer/step_meter.h"

namespace muonshard {

// One rank's bytes.
struct RankBytes {
  // Of all steps, without start-up, counted by the plugin.
  uint64_t bucket_bytes_sent = 0;
  uint64_t control_bytes_sent = 0;
  // Of one step, by the formula of the plan.
  int64_t bucket_bytes_planned = 0;
};

struct TrainResult {
  std::string plugin_name;
  std::string plugin_path;
  std::string data_source;
  int64_t training_bytes = 0;
  int64_t parameter_count = 0;  // Elements, of all experts together.
  std::vector<GroupSummary> groups;

  double held_out_loss_first = 0;
  double held_out_loss_last = 0;
  std::vector<StepMeans> steps;
  double training_seconds = 0;
  int64_t skipped_steps = 0;  // Steps whose gradients were not finite.
  double loss_scale = 1;      // After the last step.
  // How often each expert was chosen for a position, in all layers and steps.
  std::vector<int64_t> expert_positions;

  std::vector<RankBytes> ranks;
  double imbalance = 1;
  double padding_fraction = 0;
  int64_t bucket_count = 0;
  std::string plan_report;

  // Of the bytes of all parameters on all ranks, by rank, after the last step.
  uint64_t parameter_hash = 0;

  // Of all parameters on all ranks; absent without --verify.
  std::optional<double> verify_max_abs_difference;
  // Elements whose bits differ.
  int64_t verify_different_count = 0;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_TRAIN_RESULT_H_
