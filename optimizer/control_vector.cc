#include "optimizer/control_vector.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/compute/gradient_norm.h"

namespace muonshard {
namespace {

constexpr size_t kNonFinite = kExactSumLimbs;
constexpr size_t kFirstAbsent = kExactSumLimbs + 1;

constexpr int64_t kNoFailure = std::numeric_limits<int64_t>::max();
constexpr int64_t kFailureKinds = 6;

// What StepFailure::parameter means with kStepOptions.
constexpr std::array<const char*, 3> kFieldNames = {
    "clip_norm", "muon_learning_rate", "adamw_learning_rate"};

std::array<double, 3> FieldsOf(const StepOptions& options) {
  return {options.clip_norm, options.muon_learning_rate.value_or(0),
          options.adamw_learning_rate.value_or(0)};
}

bool IsInRange(double field) { return field >= 0 && std::isfinite(field); }

struct Fact {
  const char* name;
  int64_t value;  // In [0, 2^63), so that its negative exists.
};

// Any double as a non-negative integer; different doubles differ but for the
// last bit of a mixed word.
int64_t Mixed(double value) {
  uint64_t x = std::bit_cast<uint64_t>(value) + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<int64_t>((x ^ (x >> 31)) >> 1);
}

std::array<Fact, 5> FactsOf(const ControlInput& input) {
  const auto rate = [](const std::optional<double>& value) {
    return value.has_value() ? Mixed(*value) : int64_t{0};
  };
  return {{
      {"step number", input.step},
      {"number of micro-batches", input.micro_batches},
      {"clip norm", Mixed(input.options.clip_norm)},
      {"Muon learning rate", rate(input.options.muon_learning_rate)},
      {"AdamW learning rate", rate(input.options.adamw_learning_rate)},
  }};
}

constexpr size_t kFirstFailure = 2 * std::tuple_size_v<std::array<Fact, 5>>;

absl::Status FailureStatus(int64_t code, int32_t size, const Plan& plan) {
  const auto kind = static_cast<FailureKind>(code % kFailureKinds);
  const int64_t rank = code / kFailureKinds % size;
  const auto parameter = static_cast<size_t>(code / kFailureKinds / size);
  if (kind == FailureKind::kStepOptions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the step was not taken: rank ", rank, " gave a ",
        kFieldNames[parameter], " out of range; want a finite number >= 0"));
  }
  const char* what = "";
  switch (kind) {
    case FailureKind::kTooManyCheckIns:
      what = "was checked in more often than there are micro-batches";
      break;
    case FailureKind::kTooFewCheckIns:
      what = "was checked in less often than there are micro-batches";
      break;
    case FailureKind::kWrongGradient:
      what = "was checked in with a gradient of the wrong size or dtype";
      break;
    case FailureKind::kFailedReduction:
      return absl::AbortedError(absl::StrCat(
          "the step was not taken: the reduction of the bucket of parameter \"",
          plan.specs[parameter].name, "\" failed on rank ", rank));
    case FailureKind::kDoesNotLiveHere:
      what = "was checked in where it does not live,";
      break;
    case FailureKind::kStepOptions:
      break;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the step was not taken: parameter \"",
                   plan.specs[parameter].name, "\" ", what, " on rank ", rank));
}

}  // namespace

std::optional<int32_t> FirstFieldOutOfRange(const StepOptions& options) {
  const std::array<double, 3> fields = FieldsOf(options);
  for (size_t f = 0; f < fields.size(); ++f) {
    if (!IsInRange(fields[f])) return static_cast<int32_t>(f);
  }
  return std::nullopt;
}

ControlVector::ControlVector(const Plan& plan, Rank rank)
    : plan_(plan), rank_(rank) {
  const std::vector<int32_t> coordinates = plan.mesh.Coordinates(rank);
  size_t next = kFirstAbsent;
  for (const ParameterSpec& spec : plan.specs) {
    ParameterPlaces places(spec, plan.mesh);
    const size_t first = next;
    next += places.count();
    const std::optional<size_t> own = places.PlaceOf(coordinates);
    absent_.push_back({first, std::move(places), own});
  }
  sum_count_ = next;
}

size_t ControlVector::least_count() { return kFirstFailure + 1; }

void ControlVector::Encode(const ControlInput& input, std::span<int64_t> sums,
                           std::span<int64_t> least) const {
  std::fill(sums.begin(), sums.end(), 0);
  input.squared_norm.Export(sums.first<kExactSumLimbs>());
  sums[kNonFinite] = input.non_finite_count;
  for (size_t p = 0; p < absent_.size(); ++p) {
    const AbsentSlots& slots = absent_[p];
    if (input.absent[p] && slots.own.has_value()) {
      sums[slots.first + *slots.own] = 1;
    }
  }
  const auto facts = FactsOf(input);
  for (size_t f = 0; f < facts.size(); ++f) {
    least[2 * f] = facts[f].value;
    least[2 * f + 1] = -facts[f].value;
  }
  least[kFirstFailure] = kNoFailure;
  if (input.failure.has_value()) {
    const int64_t place =
        int64_t{input.failure->parameter} * plan_.mesh.size() + ToInt(rank_);
    least[kFirstFailure] =
        place * kFailureKinds + static_cast<int64_t>(input.failure->kind);
  }
}

absl::Status ControlVector::CheckAbsent(
    const std::vector<int64_t>& sums) const {
  for (size_t p = 0; p < absent_.size(); ++p) {
    if (plan_.specs[p].absent_gradient != AbsentGradient::kError) continue;
    const AbsentSlots& slots = absent_[p];
    for (size_t place = 0; place < slots.places.count(); ++place) {
      if (sums[slots.first + place] < slots.places.rank_count()) continue;
      const std::string where = slots.places.Name(place);
      return absl::FailedPreconditionError(absl::StrCat(
          "the step was not taken: parameter \"", plan_.specs[p].name,
          "\" has a gradient on none of its ", slots.places.rank_count(),
          " ranks", where.empty() ? "" : " at ", where,
          "; want one on at least one, or absent_gradient zeros or skip"));
    }
  }
  return absl::OkStatus();
}

StepDecision ControlVector::Decide(const ControlInput& input,
                                   const std::vector<int64_t>& sums,
                                   const std::vector<int64_t>& least) const {
  StepDecision decision;
  decision.outcome.step = input.step;
  decision.absent_everywhere.resize(absent_.size());
  if (least[kFirstFailure] != kNoFailure) {
    decision.status =
        FailureStatus(least[kFirstFailure], plan_.mesh.size(), plan_);
    return decision;
  }
  const auto facts = FactsOf(input);
  for (size_t f = 0; f < facts.size(); ++f) {
    if (least[2 * f] == -least[2 * f + 1]) continue;
    decision.status = absl::FailedPreconditionError(
        absl::StrCat("step ", input.step, " was not taken: the ", facts[f].name,
                     " is not the same on all ranks"));
    return decision;
  }
  decision.status = CheckAbsent(sums);
  if (!decision.status.ok()) return decision;
  for (size_t p = 0; p < absent_.size(); ++p) {
    const AbsentSlots& slots = absent_[p];
    decision.absent_everywhere[p] =
        slots.own.has_value() &&
        sums[slots.first + *slots.own] == slots.places.rank_count();
  }
  ExactSum squared_norm;
  squared_norm.AddLimbs(
      std::span<const int64_t, kExactSumLimbs>(sums.data(), kExactSumLimbs));
  StepOutcome& outcome = decision.outcome;
  outcome.non_finite_count = sums[kNonFinite];
  outcome.gradient_norm = GlobalNorm(squared_norm);
  outcome.updated = outcome.non_finite_count == 0;
  outcome.clip_factor =
      ClipFactor(outcome.gradient_norm, input.options.clip_norm);
  return decision;
}

}  // namespace muonshard
