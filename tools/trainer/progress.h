// What a run tells the person who started it.

#ifndef TOOLS_TRAINER_PROGRESS_H_
#define TOOLS_TRAINER_PROGRESS_H_

#include <cstdint>
#include <string>

#include "tools/trainer/step_meter.h"
#include "tools/trainer/train_options.h"
#include "tools/trainer/train_result.h"

namespace muonshard {

// Of a run with loss scaling, after a step.
struct ScalerProgress {
  double loss_scale = 1;
  int64_t skipped_steps = 0;
};

// The heading of the lines that `ProgressLine` makes.
std::string ProgressHeading(const TrainOptions& options);

// Means over the steps (first, last].
std::string ProgressLine(const TrainOptions& options, const StepMeter& meter,
                         int64_t first, int64_t last,
                         const ScalerProgress& scaler);

// Several lines before the first step, and after the last.
std::string Introduction(const TrainOptions& options,
                         const TrainResult& result);
std::string Summary(const TrainOptions& options, const TrainResult& result);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_PROGRESS_H_
