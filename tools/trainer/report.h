// A run as JSON, for programs.
//
// In this file, of what is not plain from its name
//   loss.*                        nats per byte; `curve` by step
//   time_ms.step_median           median over steps of the mean over ranks
//   time_ms.newton_schulz         mean over steps and ranks
//   time_ms.exposed_communication mean over steps and ranks of the time in
//                                 which a program waited, in the optimizer, for
//                                 another rank
//   wire_bytes.total_per_rank     payload bytes that each rank sent for buckets
//                                 in all steps, counted by the plugin; without
//                                 start-up
//   wire_bytes.per_rank           the same of one step: the total over the
//                                 steps, not rounded
//   wire_bytes.control_*          the same for the control all-reduces
//   wire_bytes.bound              what all ranks together must send in one step
//                                 by the plan: the sum of `bound_per_rank`
//   loss_scale                    after the last step; 1 without --scaler
//   experts.positions             how often each expert was chosen, in all
//                                 layers and steps
//   plan.groups                   groups of several ranks that gradients are
//                                 reduced in; hosts and lanes are 1 in a flat
//                                 one
//   parameter_hash                of the bytes of all parameters on all ranks,
//                                 after the last step
//   verify.max_abs_difference     null without --verify

#ifndef TOOLS_TRAINER_REPORT_H_
#define TOOLS_TRAINER_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/trainer/train_options.h"
#include "tools/trainer/train_result.h"

namespace muonshard {

// Of the steps' time; 0 if there are none.
struct StepTimes {
  double step_median_ms = 0;
  double newton_schulz_ms = 0;
  double exposed_communication_ms = 0;
};

StepTimes TimesOf(const std::vector<StepMeans>& steps);

// A count over the whole run as a share of each step. Not rounded to a whole
// number, so that one that differs between steps shows.
double PerStep(uint64_t count, const TrainResult& result);

std::string ReportJson(const TrainOptions& options, const TrainResult& result);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_REPORT_H_
