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

ParameterRates RatesOf(const ParameterSpec& spec,
                       const OptimizerOptions& options,
                       const StepOptions& step) {
  const bool muon = spec.rule == Rule::kMuon;
  double rate =
      muon ? step.muon_learning_rate.value_or(options.muon.learning_rate)
           : step.adamw_learning_rate.value_or(options.adamw.learning_rate);
  rate *= spec.learning_rate_scale;
  if (!spec.schedule.empty()) rate *= FactorOf(spec.schedule, step);
  const double decay =
      muon ? options.muon.weight_decay : options.adamw.weight_decay;
  return {.learning_rate = rate, .weight_decay = spec.weight_decay ? decay : 0};
}

absl::Status CheckRates(const ParameterSpec& spec,
                        const OptimizerOptions& options,
                        const StepOptions& step) {
  const ParameterRates rates = RatesOf(spec, options, step);
  const double rate = rates.learning_rate;
  double largest = std::max(1.0, rates.weight_decay);
  if (spec.rule == Rule::kAdamW) {
    largest = std::max(largest, 1 / (1 - options.adamw.beta1));
  } else if (options.muon.scale == MuonScale::kMatchAdamWRms) {
    largest = std::max(largest, options.muon.rms_factor);
  }
  // An infinite rate times 0 is NaN, of which this is not true either.
  if (rate * largest <= kLearningRateMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "parameter \"", absl::CEscape(spec.name), "\": want a learning rate of ",
      "at most ", kLearningRateMax / largest, " in all, got ", rate));
}

}  // namespace muonshard
