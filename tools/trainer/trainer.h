// One training run, from options to result: reads the data, opens the plugin,
// runs the ranks, writes the output files.
//
// Errors       All that can be seen without training is an error before any
//              rank starts: options, output paths, data, mesh, plugin. An error
//              of a rank names it.

#ifndef TOOLS_TRAINER_TRAINER_H_
#define TOOLS_TRAINER_TRAINER_H_

#include "absl/status/statusor.h"
#include "tools/trainer/train_options.h"
#include "tools/trainer/train_result.h"
#include "tools/trainer/train_run.h"

namespace muonshard {

// `show` gets the lines a person reads while it runs.
absl::StatusOr<TrainResult> Train(const TrainOptions& options,
                                  const TextSink& show);

// The optimizer's options that follow from `options`.
OptimizerOptions OptimizerOptionsOf(const TrainOptions& options);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_TRAINER_H_
