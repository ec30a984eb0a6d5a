#include "optimizer/muon_options.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "optimizer/option_checks.h"

namespace muonshard {
namespace {

constexpr int32_t kNewtonSchulzStepsMax = 16;

template <typename Enum>
struct Named {
  Enum value;
  absl::string_view name;
};

constexpr Named<PreScaling> kPreScalings[] = {
    {PreScaling::kOfSet, "of_set"},
    {PreScaling::kFrobenius, "frobenius"},
    {PreScaling::kAol, "aol"}};

constexpr Named<NewtonSchulzIteration> kIterations[] = {
    {NewtonSchulzIteration::kStandard, "standard"},
    {NewtonSchulzIteration::kGram, "gram"}};

constexpr Named<MuonScale> kScales[] = {
    {MuonScale::kSpectral, "spectral"},
    {MuonScale::kMatchAdamWRms, "match_adamw_rms"},
    {MuonScale::kFanRatio, "fan_ratio"},
    {MuonScale::kNone, "none"}};

constexpr Named<WeightDecay> kWeightDecays[] = {
    {WeightDecay::kDecoupled, "decoupled"},
    {WeightDecay::kCautious, "cautious"}};

template <typename Enum, size_t N>
absl::string_view NameOf(const Named<Enum> (&rows)[N], Enum value) {
  for (const Named<Enum>& row : rows) {
    if (row.value == value) return row.name;
  }
  return "unknown";
}

template <typename Enum, size_t N>
absl::StatusOr<Enum> ValueOf(absl::string_view what,
                             const Named<Enum> (&rows)[N],
                             absl::string_view name) {
  for (const Named<Enum>& row : rows) {
    if (row.name == name) return row.value;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": want one of ",
                   absl::StrJoin(rows, ", ",
                                 [](std::string* out, const Named<Enum>& row) {
                                   absl::StrAppend(out, row.name);
                                 }),
                   ", got \"", absl::CEscape(name), "\""));
}

template <typename Enum, size_t N>
absl::Status CheckNamed(absl::string_view field, absl::string_view type,
                        const Named<Enum> (&rows)[N], Enum value) {
  for (const Named<Enum>& row : rows) {
    if (row.value == value) return absl::OkStatus();
  }
  return InvalidOption(field, absl::StrCat("one of ", type),
                       static_cast<int>(value));
}

absl::Status CheckCustomCoefficients(const MuonOptions& options) {
  const auto& coefficients = options.custom_coefficients;
  if (options.coefficient_set != NewtonSchulzSet::kCustom) {
    if (coefficients.empty()) return absl::OkStatus();
    return InvalidOption(
        "muon.custom_coefficients",
        absl::StrCat("none with the coefficient set ",
                     CoefficientSetOf(options.coefficient_set).name),
        coefficients.size());
  }
  if (coefficients.empty() || coefficients.size() > kNewtonSchulzStepsMax) {
    return InvalidOption(
        "muon.custom_coefficients",
        absl::StrCat("1 to ", kNewtonSchulzStepsMax, " of (a, b, c)"),
        coefficients.size());
  }
  for (size_t i = 0; i < coefficients.size(); ++i) {
    for (const double value :
         {coefficients[i].a, coefficients[i].b, coefficients[i].c}) {
      if (std::isfinite(value)) continue;
      return InvalidOption(absl::StrCat("muon.custom_coefficients[", i, "]"),
                           "finite", value);
    }
  }
  return absl::OkStatus();
}

// The named sets presume one pre-scaling; that of the user is the user's.
absl::Status CheckPreScaling(const MuonOptions& options) {
  if (absl::Status s = CheckNamed("muon.pre_scaling", "PreScaling",
                                  kPreScalings, options.pre_scaling);
      !s.ok()) {
    return s;
  }
  if (options.coefficient_set == NewtonSchulzSet::kCustom) {
    return absl::OkStatus();
  }
  MuonOptions presumed = options;
  presumed.pre_scaling = PreScaling::kOfSet;
  if (PreScalingOf(options) == PreScalingOf(presumed)) return absl::OkStatus();
  return InvalidOption(
      "muon.pre_scaling",
      absl::StrCat(PreScalingName(PreScalingOf(presumed)),
                   ", which the coefficient set ",
                   CoefficientSetOf(options.coefficient_set).name, " presumes"),
      PreScalingName(options.pre_scaling));
}

absl::Status CheckNewtonSchulz(const MuonOptions& options) {
  if (CoefficientSetOf(options.coefficient_set).set !=
      options.coefficient_set) {
    return InvalidOption("muon.coefficient_set", "one of NewtonSchulzSet",
                         static_cast<int>(options.coefficient_set));
  }
  if (options.newton_schulz_steps < 0 ||
      options.newton_schulz_steps > kNewtonSchulzStepsMax) {
    return InvalidOption("muon.newton_schulz_steps",
                         absl::StrCat("in [0, ", kNewtonSchulzStepsMax, "]"),
                         options.newton_schulz_steps);
  }
  if (!(options.polar_express_safety >= 1) ||
      !std::isfinite(options.polar_express_safety)) {
    return InvalidOption("muon.polar_express_safety", "finite and >= 1",
                         options.polar_express_safety);
  }
  if (options.gram_restart_interval < 1) {
    return InvalidOption("muon.gram_restart_interval", ">= 1",
                         options.gram_restart_interval);
  }
  const DataType dtype = options.newton_schulz_dtype;
  if (dtype != DataType::kF64 && dtype != DataType::kF32 &&
      dtype != DataType::kBF16 && dtype != DataType::kF16) {
    return InvalidOption("muon.newton_schulz_dtype", "f64, f32, bf16 or f16",
                         DataTypeName(dtype));
  }
  return FirstError({CheckCustomCoefficients(options), CheckPreScaling(options),
                     CheckNamed("muon.iteration", "NewtonSchulzIteration",
                                kIterations, options.iteration)});
}

}  // namespace

absl::Status Validate(const MuonOptions& options) {
  return FirstError(
      {CheckPositive("muon.learning_rate", options.learning_rate),
       CheckNotNegative("muon.weight_decay", options.weight_decay),
       CheckNamed("muon.weight_decay_kind", "WeightDecay", kWeightDecays,
                  options.weight_decay_kind),
       CheckBelowOne("muon.momentum", options.momentum),
       CheckNewtonSchulz(options),
       CheckPositive("muon.epsilon", options.epsilon),
       CheckNamed("muon.scale", "MuonScale", kScales, options.scale),
       CheckPositive("muon.rms_factor", options.rms_factor),
       CheckBelowOne("muon.row_beta2", options.row_beta2)});
}

int32_t NewtonSchulzSteps(const MuonOptions& options) {
  if (options.newton_schulz_steps > 0) return options.newton_schulz_steps;
  if (options.coefficient_set == NewtonSchulzSet::kCustom) {
    return static_cast<int32_t>(options.custom_coefficients.size());
  }
  return static_cast<int32_t>(
      CoefficientSetOf(options.coefficient_set).coefficients.size());
}

std::vector<NewtonSchulzCoefficients> StepCoefficients(
    const MuonOptions& options) {
  const auto named = CoefficientSetOf(options.coefficient_set).coefficients;
  std::vector<NewtonSchulzCoefficients> set(named.begin(), named.end());
  if (options.coefficient_set == NewtonSchulzSet::kCustom) {
    set = options.custom_coefficients;
  }
  if (options.coefficient_set == NewtonSchulzSet::kPolarExpress) {
    const double factor = options.polar_express_safety;
    for (size_t i = 0; i + 1 < set.size(); ++i) {
      set[i].a /= factor;
      set[i].b /= std::pow(factor, 3);
      set[i].c /= std::pow(factor, 5);
    }
  }
  std::vector<NewtonSchulzCoefficients> steps;
  const size_t count = static_cast<size_t>(NewtonSchulzSteps(options));
  for (size_t i = 0; i < count && !set.empty(); ++i) {
    steps.push_back(set[std::min(i, set.size() - 1)]);
  }
  return steps;
}

PreScaling PreScalingOf(const MuonOptions& options) {
  if (options.pre_scaling != PreScaling::kOfSet) return options.pre_scaling;
  return options.coefficient_set == NewtonSchulzSet::kAol
             ? PreScaling::kAol
             : PreScaling::kFrobenius;
}

absl::string_view PreScalingName(PreScaling pre_scaling) {
  return NameOf(kPreScalings, pre_scaling);
}

absl::string_view NewtonSchulzIterationName(NewtonSchulzIteration iteration) {
  return NameOf(kIterations, iteration);
}

absl::string_view MuonScaleName(MuonScale scale) {
  return NameOf(kScales, scale);
}

absl::string_view WeightDecayName(WeightDecay decay) {
  return NameOf(kWeightDecays, decay);
}

absl::StatusOr<PreScaling> PreScalingByName(absl::string_view name) {
  return ValueOf("pre-scaling", kPreScalings, name);
}

absl::StatusOr<NewtonSchulzIteration> NewtonSchulzIterationByName(
    absl::string_view name) {
  return ValueOf("Newton-Schulz iteration", kIterations, name);
}

absl::StatusOr<MuonScale> MuonScaleByName(absl::string_view name) {
  return ValueOf("scale rule", kScales, name);
}

absl::StatusOr<WeightDecay> WeightDecayByName(absl::string_view name) {
  return ValueOf("weight decay", kWeightDecays, name);
}

}  // namespace muonshard
