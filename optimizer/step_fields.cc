#include "optimizer/step_fields.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

constexpr double kLargestFinite = std::numeric_limits<double>::max();

double FactorOf(const std::string& schedule, const StepOptions& options) {
  const auto listed = options.schedule_factors.find(schedule);
  return listed == options.schedule_factors.end() ? 1 : listed->second;
}

}  // namespace

std::vector<std::string> SchedulesOf(const std::vector<ParameterSpec>& specs) {
  std::set<std::string> schedules;
  for (const ParameterSpec& spec : specs) {
    if (!spec.schedule.empty()) schedules.insert(spec.schedule);
  }
  return {schedules.begin(), schedules.end()};
}

std::vector<StepField> FieldsOf(const StepOptions& options,
                                const std::vector<std::string>& schedules) {
  std::vector<StepField> fields = {
      {"clip_norm", options.clip_norm, 0, kLargestFinite},
      {"muon_learning_rate", options.muon_learning_rate.value_or(0), 0,
       kLargestFinite},
      {"adamw_learning_rate", options.adamw_learning_rate.value_or(0), 0,
       kLargestFinite},
      {"loss_scale", options.loss_scale, kLossScaleMin, kLossScaleMax}};
  for (const std::string& schedule : schedules) {
    fields.push_back(
        {absl::StrCat("schedule_factors[\"", absl::CEscape(schedule), "\"]"),
         FactorOf(schedule, options), 0, kLargestFinite});
  }
  return fields;
}

bool IsInRange(const StepField& field) {
  return field.value >= field.least && field.value <= field.largest;
}

std::string RangeText(const StepField& field) {
  if (field.largest == kLargestFinite) {
    return absl::StrCat("finite and >= ", field.least);
  }
  return absl::StrCat("in [", field.least, ", ", field.largest, "]");
}

absl::Status Validate(const StepOptions& options,
                      const std::vector<std::string>& schedules) {
  for (const StepField& field : FieldsOf(options, schedules)) {
    if (IsInRange(field)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        field.name, ": want ", RangeText(field), ", got ", field.value));
  }
  for (const auto& [schedule, factor] : options.schedule_factors) {
    if (std::binary_search(schedules.begin(), schedules.end(), schedule)) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("schedule_factors: no parameter has the schedule \"",
                     absl::CEscape(schedule), "\""));
  }
  return absl::OkStatus();
}

double LearningRateOf(const ParameterSpec& spec, double rule_rate,
                      const StepOptions& options) {
  const double rate = rule_rate * spec.learning_rate_scale;
  return spec.schedule.empty() ? rate : rate * FactorOf(spec.schedule, options);
}

}  // namespace muonshard
