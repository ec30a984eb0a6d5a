// The loss of a run as a picture that a browser shows.

#ifndef TOOLS_TRAINER_PLOT_H_
#define TOOLS_TRAINER_PLOT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tools/trainer/train_result.h"

namespace muonshard {

// SVG: each step's training loss, its running mean, and the held-out loss
// before and after, over axes with labels. `title` stands above.
std::string LossPlotSvg(absl::string_view title, const TrainResult& result);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_PLOT_H_
