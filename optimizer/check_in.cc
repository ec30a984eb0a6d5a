#include "optimizer/check_in.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/compute/convert.h"

namespace muonshard {

void CheckInLedger::Begin(int64_t step, int32_t micro_batches) {
  step_ = step;
  micro_batches_ = micro_batches;
  failure_.reset();
  std::fill(counts_.begin(), counts_.end(), 0);
}

absl::Status CheckInLedger::Fail(int32_t parameter, FailureKind kind,
                                 absl::Status error) {
  if (!failure_.has_value() || parameter < failure_->parameter) {
    failure_ = StepFailure{.parameter = parameter, .kind = kind};
  }
  return error;
}

absl::Status CheckInLedger::CheckGradient(const ParameterSpec& spec,
                                          int64_t count, DataType dtype) const {
  const int64_t want_count = ElementCount(spec);
  const bool accumulates = spec.gradient_mode == GradientMode::kAccumulate;
  const bool right_type =
      accumulates ? IsFloating(dtype) : dtype == spec.gradient_dtype;
  if (count == want_count && right_type) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("gradient of parameter \"", spec.name, "\": want ",
                   want_count, " elements of ",
                   accumulates ? absl::string_view("a floating type")
                               : DataTypeName(spec.gradient_dtype),
                   ", got ", count, " of ", DataTypeName(dtype)));
}

absl::StatusOr<CheckInLedger::Turn> CheckInLedger::Count(int32_t parameter,
                                                         int64_t count,
                                                         DataType dtype) {
  const auto index = static_cast<size_t>(parameter);
  const ParameterSpec& spec = specs_[index];
  if (!lives_here_[index]) {
    return Fail(parameter, FailureKind::kDoesNotLiveHere,
                absl::FailedPreconditionError(absl::StrCat(
                    "gradient of parameter \"", spec.name,
                    "\": want it where the parameter lives, and it does not "
                    "live here")));
  }
  if (absl::Status s = CheckGradient(spec, count, dtype); !s.ok()) {
    return Fail(parameter, FailureKind::kWrongGradient, std::move(s));
  }
  const bool counted = spec.check_ins != CheckIns::kSyncOnly;
  if (counted && counts_[index] == micro_batches_) {
    return Fail(parameter, FailureKind::kTooManyCheckIns,
                absl::FailedPreconditionError(absl::StrCat(
                    "parameter \"", spec.name, "\": want ", micro_batches_,
                    " check-ins in step ", step_, ", one a micro-batch, got ",
                    counts_[index] + 1)));
  }
  ++counts_[index];
  return Turn{.first = counts_[index] == 1,
              .last = counted && counts_[index] == micro_batches_};
}

std::vector<bool> CheckInLedger::End() {
  std::vector<bool> absent(counts_.size());
  for (size_t p = 0; p < counts_.size(); ++p) {
    absent[p] = lives_here_[p] && counts_[p] == 0;
    if (counts_[p] == 0 || counts_[p] == micro_batches_ ||
        specs_[p].check_ins != CheckIns::kExactly) {
      continue;
    }
    (void)Fail(static_cast<int32_t>(p), FailureKind::kTooFewCheckIns,
               absl::OkStatus());
  }
  return absent;
}

}  // namespace muonshard
