#include "optimizer/options.h"

#include <cmath>
#include <cstddef>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muonshard {
namespace {

constexpr int32_t kNewtonSchulzStepsMax = 16;

absl::Status Invalid(absl::string_view field, absl::string_view want,
                     const absl::AlphaNum& got) {
  return absl::InvalidArgumentError(
      absl::StrCat("option ", field, ": want ", want, ", got ", got));
}

// NaN fails each comparison, so the ranges are asked for and not their
// complements.
absl::Status CheckPositive(absl::string_view field, double value) {
  if (value > 0 && std::isfinite(value)) return absl::OkStatus();
  return Invalid(field, "finite and > 0", value);
}

absl::Status CheckNotNegative(absl::string_view field, double value) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return Invalid(field, "finite and >= 0", value);
}

absl::Status CheckBelowOne(absl::string_view field, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return Invalid(field, "in [0, 1)", value);
}

absl::Status FirstError(std::initializer_list<absl::Status> checks) {
  for (const absl::Status& check : checks) {
    if (!check.ok()) return check;
  }
  return absl::OkStatus();
}

absl::Status ValidateMuon(const MuonOptions& muon) {
  if (absl::Status s =
          FirstError({CheckPositive("muon.learning_rate", muon.learning_rate),
                      CheckNotNegative("muon.weight_decay", muon.weight_decay),
                      CheckBelowOne("muon.momentum", muon.momentum),
                      CheckPositive("muon.epsilon", muon.epsilon)});
      !s.ok()) {
    return s;
  }
  if (muon.newton_schulz_steps < 1 ||
      muon.newton_schulz_steps > kNewtonSchulzStepsMax) {
    return Invalid("muon.newton_schulz_steps",
                   absl::StrCat("in [1, ", kNewtonSchulzStepsMax, "]"),
                   muon.newton_schulz_steps);
  }
  if (muon.coefficients.empty()) {
    return Invalid("muon.coefficients", "at least one (a, b, c)", "none");
  }
  for (size_t i = 0; i < muon.coefficients.size(); ++i) {
    const NewtonSchulzCoefficients& set = muon.coefficients[i];
    for (const double value : {set.a, set.b, set.c}) {
      if (std::isfinite(value)) continue;
      return Invalid(absl::StrCat("muon.coefficients[", i, "]"), "finite",
                     value);
    }
  }
  switch (muon.scale) {
    case MuonScale::kSpectral:
    case MuonScale::kMatchAdamWRms:
    case MuonScale::kFanRatio:
    case MuonScale::kNone:
      return absl::OkStatus();
  }
  return Invalid("muon.scale", "one of MuonScale",
                 static_cast<int>(muon.scale));
}

absl::Status ValidateAdamW(const AdamWOptions& adamw) {
  return FirstError({CheckPositive("adamw.learning_rate", adamw.learning_rate),
                     CheckNotNegative("adamw.weight_decay", adamw.weight_decay),
                     CheckBelowOne("adamw.beta1", adamw.beta1),
                     CheckBelowOne("adamw.beta2", adamw.beta2),
                     CheckPositive("adamw.epsilon", adamw.epsilon)});
}

absl::Status ValidatePlan(const PlanOptions& plan) {
  if (plan.bucket_bytes_max < 1) {
    return Invalid("plan.bucket_bytes_max", ">= 1", plan.bucket_bytes_max);
  }
  if (plan.buckets_per_part < 0) {
    return Invalid("plan.buckets_per_part", ">= 0", plan.buckets_per_part);
  }
  if (plan.rank_memory_bytes_max < 0) {
    return Invalid("plan.rank_memory_bytes_max", ">= 0",
                   plan.rank_memory_bytes_max);
  }
  switch (plan.hierarchy) {
    case Hierarchy::kOff:
    case Hierarchy::kOn:
    case Hierarchy::kAuto:
      return absl::OkStatus();
  }
  return Invalid("plan.hierarchy", "one of Hierarchy",
                 static_cast<int>(plan.hierarchy));
}

absl::Status ValidateStep(const OptimizerOptions& options) {
  if (options.gather != GatherMode::kEager &&
      options.gather != GatherMode::kLazy) {
    return Invalid("gather", "one of GatherMode",
                   static_cast<int>(options.gather));
  }
  if (options.equality_check_interval < 0) {
    return Invalid("equality_check_interval", ">= 0",
                   options.equality_check_interval);
  }
  if (options.timeout <= absl::ZeroDuration() ||
      options.timeout == absl::InfiniteDuration()) {
    return Invalid("timeout", "finite and > 0",
                   absl::FormatDuration(options.timeout));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<NewtonSchulzCoefficients> TorchCoefficients() {
  return {{3.4445, -4.7750, 2.0315}};
}

absl::Status Validate(const OptimizerOptions& options) {
  if (absl::Status s = ValidateMuon(options.muon); !s.ok()) return s;
  if (absl::Status s = ValidateAdamW(options.adamw); !s.ok()) return s;
  if (absl::Status s = ValidatePlan(options.plan); !s.ok()) return s;
  return ValidateStep(options);
}

}  // namespace muonshard
