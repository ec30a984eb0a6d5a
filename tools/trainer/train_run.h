// What the ranks of one run share: its inputs, and where results gather. Ranks
// that are processes have one each.

#ifndef TOOLS_TRAINER_TRAIN_RUN_H_
#define TOOLS_TRAINER_TRAIN_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "collectives/plugin.h"
#include "collectives/runtime/runtime.h"
#include "collectives/store.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "tools/trainer/step_meter.h"
#include "tools/trainer/text_data.h"
#include "tools/trainer/train_options.h"
#include "tools/trainer/train_result.h"
#include "tools/trainer/verify.h"
#include "topology/mesh.h"

namespace muonshard {

// Shows text to a person; called by one task at a time.
using TextSink = std::function<void(const std::string&)>;

// What one rank brings back.
struct RankResult {
  // The mean loss of each held-out batch that was this rank's share, by index
  // of the batch; elsewhere 0.
  std::vector<double> held_out_first;
  std::vector<double> held_out_last;
  absl::Time training_begin;
  absl::Time training_end;
  RankBytes bytes;
  int64_t skipped_steps = 0;
  double loss_scale = 1;  // For the next step.
  // How often each expert was chosen for a position of this rank.
  std::vector<int64_t> expert_positions;
  double imbalance = 1;
  double padding_fraction = 0;
  int64_t bucket_count = 0;
  std::string plan_report;
  VerifyDifference difference;
  // Of the bytes of all parameters, in their order, after the last step.
  uint64_t parameter_hash = 0;
};

// Made before the ranks start; constant while they run, but for the objects
// that guard themselves.
struct TrainRun {
  const TrainOptions& options;
  const Mesh& mesh;
  const TextData& data;
  std::vector<ParameterSpec> specs;                // Placed on the mesh.
  std::vector<std::vector<float>> initial_values;  // Of the whole model.
  std::vector<std::string> host_ids;               // By rank.
  OptimizerOptions optimizer_options;
  Runtime& runtime;
  Plugin& plugin;
  Store& store;
  StepMeter& meter;
  Verifier* verifier = nullptr;  // Null without --verify.
  TextSink show;
  // This process runs one rank; the others are other processes.
  bool is_process = false;
  // By rank. Each rank fills its own, or, if it is a process, all.
  std::vector<RankResult> results;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_TRAIN_RUN_H_
