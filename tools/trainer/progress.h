// What a run tells the person who started it.

#ifndef TOOLS_TRAINER_PROGRESS_H_
#define TOOLS_TRAINER_PROGRESS_H_

#include <cstdint>
#include <string>

#include "tools/trainer/step_meter.h"
#include "tools/trainer/train_options.h"
#include "tools/trainer/train_result.h"

namespace muonshard {

// The heading of the lines that `ProgressLine` makes.
std::string ProgressHeading();

// Means over the steps (first, last]; `tokens` is what all ranks together learn
// from in a step.
std::string ProgressLine(const StepMeter& meter, int64_t first, int64_t last,
                         int64_t tokens);

// Several lines before the first step, and after the last.
std::string Introduction(const TrainOptions& options,
                         const TrainResult& result);
std::string Summary(const TrainOptions& options, const TrainResult& result);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_PROGRESS_H_
