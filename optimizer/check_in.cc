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

absl::StatusOr<CheckInLedger::Turn> CheckInLedger::Count(int32_t parameter,
                                                         int64_t count,
                                                         DataType dtype) {
  const auto index = static_cast<size_t>(parameter);
  const ParameterSpec& spec = specs_[index];
  const int64_t want_count = ElementCount(spec);
  const bool right_type = spec.gradient_mode == GradientMode::kAccumulate
                              ? IsFloating(dtype)
                              : dtype == spec.gradient_dtype;
  if (count != want_count || !right_type) {
    return Fail(parameter, FailureKind::kWrongGradient,
                absl::InvalidArgumentError(absl::StrCat(
                    "gradient of parameter \"", spec.name, "\": want ",
                    want_count, " elements of ",
                    spec.gradient_mode == GradientMode::kAccumulate
                        ? absl::string_view("a floating type")
                        : DataTypeName(spec.gradient_dtype),
                    ", got ", count, " of ", DataTypeName(dtype))));
  }
  if (counts_[index] == micro_batches_) {
    return Fail(parameter, FailureKind::kTooManyCheckIns,
                absl::FailedPreconditionError(absl::StrCat(
                    "parameter \"", spec.name, "\": want ", micro_batches_,
                    " check-ins in step ", step_, ", one a micro-batch, got ",
                    counts_[index] + 1)));
  }
  ++counts_[index];
  return Turn{.first = counts_[index] == 1,
              .last = counts_[index] == micro_batches_};
}

std::vector<bool> CheckInLedger::End() {
  std::vector<bool> absent(counts_.size());
  for (size_t p = 0; p < counts_.size(); ++p) {
    absent[p] = counts_[p] == 0;
    if (absent[p] || counts_[p] == micro_batches_ ||
        specs_[p].check_ins == CheckIns::kAtMost) {
      continue;
    }
    (void)Fail(static_cast<int32_t>(p), FailureKind::kTooFewCheckIns,
               absl::OkStatus());
  }
  return absent;
}

}  // namespace muonshard
