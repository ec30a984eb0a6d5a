// The numbers of StepOptions as a list: each rank checks its own, and all are
// compared over the ranks.
//
// In this file
//   schedule   a name that a parameter's spec gives for its learning rates
//
// Errors     kInvalidArgument names the first field that is out of range, its
//            range and what was got, the schedule that no parameter has, or the
//            parameter whose rates are too large and the rate.

#ifndef OPTIMIZER_STEP_FIELDS_H_
#define OPTIMIZER_STEP_FIELDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/step_options.h"

namespace muonshard {

struct StepField {
  std::string name;
  double value = 0;
  double least = 0;
  double largest = 0;
};

// All schedules of `specs`, ascending, each once.
std::vector<std::string> SchedulesOf(const std::vector<ParameterSpec>& specs);

// Clip norm, learning rates (0 for one that is not given), loss scale, and the
// factor of each of `schedules`.
std::vector<StepField> FieldsOf(const StepOptions& options,
                                const std::vector<std::string>& schedules);

// False for NaN.
bool IsInRange(const StepField& field);

// "finite and >= 0", "in [1.17549e-38, 3.40282e+38]".
std::string RangeText(const StepField& field);

absl::Status Validate(const StepOptions& options,
                      const std::vector<std::string>& schedules);

struct ParameterRates {
  double learning_rate = 0;
  double weight_decay = 0;
};

// Those of a parameter in a step: the learning rate is its rule's times its own
// scale times the factor of its schedule.
ParameterRates RatesOf(const ParameterSpec& spec,
                       const OptimizerOptions& options,
                       const StepOptions& step);

// The largest learning rate, and the largest that it may become with the
// factors that do not depend on shapes: times the weight decay, times Muon's
// rms_factor, over AdamW's 1 - beta1. The scale of a shape is below 2^32 (the
// root of a dimension), so what multiplies a weight or a direction in f32 is
// below 2^96, and both may be as large as 2^31 and stay finite.
inline constexpr double kLearningRateMax = 0x1p64;

// Whether the rates of a parameter, whose factors are each in range, are.
absl::Status CheckRates(const ParameterSpec& spec,
                        const OptimizerOptions& options,
                        const StepOptions& step);

}  // namespace muonshard

#endif  // OPTIMIZER_STEP_FIELDS_H_
