#include "optimizer/options.h"

#include "optimizer/option_checks.h"

namespace muonshard {
namespace {

absl::Status ValidateAdamW(const AdamWOptions& adamw) {
  return FirstError({CheckPositive("adamw.learning_rate", adamw.learning_rate),
                     CheckNotNegative("adamw.weight_decay", adamw.weight_decay),
                     CheckBelowOne("adamw.beta1", adamw.beta1),
                     CheckBelowOne("adamw.beta2", adamw.beta2),
                     CheckPositiveFloat("adamw.epsilon", adamw.epsilon)});
}

absl::Status ValidatePlan(const PlanOptions& plan) {
  if (plan.bucket_bytes_max < 1) {
    return InvalidOption("plan.bucket_bytes_max", ">= 1",
                         plan.bucket_bytes_max);
  }
  if (plan.buckets_per_part < 0) {
    return InvalidOption("plan.buckets_per_part", ">= 0",
                         plan.buckets_per_part);
  }
  if (plan.rank_memory_bytes_max < 0) {
    return InvalidOption("plan.rank_memory_bytes_max", ">= 0",
                         plan.rank_memory_bytes_max);
  }
  switch (plan.hierarchy) {
    case Hierarchy::kOff:
    case Hierarchy::kOn:
    case Hierarchy::kAuto:
      return absl::OkStatus();
  }
  return InvalidOption("plan.hierarchy", "one of Hierarchy",
                       static_cast<int>(plan.hierarchy));
}

absl::Status ValidateStep(const OptimizerOptions& options) {
  if (options.gather != GatherMode::kEager &&
      options.gather != GatherMode::kLazy) {
    return InvalidOption("gather", "one of GatherMode",
                         static_cast<int>(options.gather));
  }
  if (options.equality_check_interval < 0) {
    return InvalidOption("equality_check_interval", ">= 0",
                         options.equality_check_interval);
  }
  if (options.timeout <= absl::ZeroDuration() ||
      options.timeout == absl::InfiniteDuration()) {
    return InvalidOption("timeout", "finite and > 0",
                         absl::FormatDuration(options.timeout));
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view HierarchyName(Hierarchy hierarchy) {
  switch (hierarchy) {
    case Hierarchy::kOff:
      return "off";
    case Hierarchy::kOn:
      return "on";
    case Hierarchy::kAuto:
      return "auto";
  }
  return "unknown";
}

absl::string_view GatherModeName(GatherMode mode) {
  switch (mode) {
    case GatherMode::kEager:
      return "eager";
    case GatherMode::kLazy:
      return "lazy";
  }
  return "unknown";
}

absl::Status Validate(const OptimizerOptions& options) {
  if (absl::Status s = Validate(options.muon); !s.ok()) return s;
  if (absl::Status s = ValidateAdamW(options.adamw); !s.ok()) return s;
  if (absl::Status s = ValidatePlan(options.plan); !s.ok()) return s;
  return ValidateStep(options);
}

}  // namespace muonshard
