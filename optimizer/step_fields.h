// The numbers of StepOptions as a list: each rank checks its own, and all are
// compared over the ranks.
//
// In this file
//   schedule   a name that a parameter's spec gives for its learning rates
//
// Errors     kInvalidArgument names the first field that is out of range, its
//            range and what was got, or the schedule that no parameter has.

#ifndef OPTIMIZER_STEP_FIELDS_H_
#define OPTIMIZER_STEP_FIELDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
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

// The learning rate of a parameter whose rule's rate is `rule_rate`.
double LearningRateOf(const ParameterSpec& spec, double rule_rate,
                      const StepOptions& options);

}  // namespace muonshard

#endif  // OPTIMIZER_STEP_FIELDS_H_
