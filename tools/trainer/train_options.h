// Everything that decides a training run, with the defaults of the program.

#ifndef TOOLS_TRAINER_TRAIN_OPTIONS_H_
#define TOOLS_TRAINER_TRAIN_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "collectives/data_type.h"
#include "collectives/job_place.h"
#include "optimizer/grad_scaler.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "tools/trainer/gpt_parameters.h"

namespace muonshard {

// Changes a gradient, in the type of its parameter, between autograd and the
// optimizer: a fault that `verify` has to find. Or fails, as the rank then
// does.
using GradientFault =
    std::function<absl::Status(int32_t rank, int64_t step, int32_t parameter,
                               std::span<std::byte> gradient)>;

struct TrainOptions {
  // Set: this process is one rank of a job, and trains that alone.
  std::optional<JobPlace> place;
  std::string plugin;          // Empty: from the environment, else loopback.
  std::string plugin_options;  // JSON for the plugin.
  int32_t ranks = 4;
  std::string mesh;  // Empty: one axis "sharding" over all ranks.
  // Ranks of each pretended host, in rank order. 0: all are on the real one.
  int32_t lanes_per_node = 0;
  int64_t steps = 800;
  int32_t micro_batches = 1;
  double bucket_mib = 0.5;
  bool overlap = true;
  Hierarchy hierarchy = Hierarchy::kAuto;
  GatherMode gather = GatherMode::kLazy;
  // Of parameters and their gradients. The model computes in f32.
  DataType precision = DataType::kF32;
  bool scaler = false;  // Dynamic loss scaling.
  GradScalerOptions scaler_options;
  Rule rule = Rule::kMuon;  // Of the hidden matrices.
  double muon_learning_rate = 0.005;
  double adamw_learning_rate = 0.003;
  double clip_norm = 1;  // 0: no clip.
  uint64_t seed = 1;
  // Demands a plugin whose results are the same bits on each run.
  bool deterministic = true;
  bool verify = false;
  std::string report_path;
  std::string trace_path;
  std::string plot_path;
  std::string data_path;  // Empty: the default text.
  int64_t interval = 50;  // Steps between lines of progress.
  ByteGptShape shape;
  int64_t sequences = 8;  // Of each rank, in one micro-batch.

  GradientFault fault_for_test;
};

// As in the flag.
inline absl::string_view PrecisionName(DataType precision) {
  switch (precision) {
    case DataType::kBF16:
      return "bf16";
    case DataType::kF16:
      return "fp16";
    default:
      return "fp32";
  }
}

// What all ranks together learn from in a step.
inline int64_t TokensPerStep(const TrainOptions& options) {
  return options.ranks * options.micro_batches * options.sequences *
         options.shape.context;
}

}  // namespace muonshard

#endif  // TOOLS_TRAINER_TRAIN_OPTIONS_H_
