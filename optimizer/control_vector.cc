#include "optimizer/control_vector.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/compute/gradient_norm.h"
#include "optimizer/step_fields.h"

namespace muonshard {
namespace {

constexpr size_t kNonFinite = kExactSumLimbs;
constexpr size_t kUncountedNonFinite = kExactSumLimbs + 1;
constexpr size_t kFirstAbsent = kExactSumLimbs + 2;

constexpr int64_t kNoFailure = std::numeric_limits<int64_t>::max();
constexpr int64_t kFailureKinds = 8;

struct Fact {
  std::string name;
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

std::vector<Fact> FactsOf(const ControlInput& input,
                          const std::vector<std::string>& schedules) {
  std::vector<Fact> facts = {{"step number", input.step},
                             {"number of micro-batches", input.micro_batches}};
  for (StepField& field : FieldsOf(input.options, schedules)) {
    facts.push_back({std::move(field.name), Mixed(field.value)});
  }
  return facts;
}

}  // namespace

ControlVector::ControlVector(const Plan& plan, Rank rank)
    : plan_(plan),
      rank_(rank),
      schedules_(SchedulesOf(plan.specs)),
      fact_count_(FactsOf({}, schedules_).size()) {
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

std::optional<StepFailure> ControlVector::Check(const OptimizerOptions& options,
                                                const StepOptions& step) const {
  const std::vector<StepField> fields = FieldsOf(step, schedules_);
  for (size_t f = 0; f < fields.size(); ++f) {
    if (IsInRange(fields[f])) continue;
    return StepFailure{.parameter = static_cast<int32_t>(f),
                       .kind = FailureKind::kStepOptions};
  }
  if (!Validate(step, schedules_).ok()) {
    return StepFailure{.parameter = 0, .kind = FailureKind::kUnknownSchedule};
  }
  for (size_t p = 0; p < plan_.specs.size(); ++p) {
    if (CheckRates(plan_.specs[p], options, step).ok()) continue;
    return StepFailure{.parameter = static_cast<int32_t>(p),
                       .kind = FailureKind::kLearningRate};
  }
  return std::nullopt;
}

void ControlVector::Encode(const ControlInput& input, std::span<int64_t> sums,
                           std::span<int64_t> least) const {
  std::fill(sums.begin(), sums.end(), 0);
  input.squared_norm.Export(sums.first<kExactSumLimbs>());
  sums[kNonFinite] = input.non_finite_count;
  sums[kUncountedNonFinite] = input.uncounted_non_finite_count;
  for (size_t p = 0; p < absent_.size(); ++p) {
    const AbsentSlots& slots = absent_[p];
    if (input.absent[p] && slots.own.has_value()) {
      sums[slots.first + *slots.own] = 1;
    }
  }
  const std::vector<Fact> facts = FactsOf(input, schedules_);
  for (size_t f = 0; f < facts.size(); ++f) {
    least[2 * f] = facts[f].value;
    least[2 * f + 1] = -facts[f].value;
  }
  int64_t& first_failure = least[2 * fact_count_];
  first_failure = kNoFailure;
  if (input.failure.has_value()) {
    const int64_t place =
        int64_t{input.failure->parameter} * plan_.mesh.size() + ToInt(rank_);
    first_failure =
        place * kFailureKinds + static_cast<int64_t>(input.failure->kind);
  }
}

absl::Status ControlVector::FailureStatus(int64_t code) const {
  const auto kind = static_cast<FailureKind>(code % kFailureKinds);
  const int64_t size = plan_.mesh.size();
  const int64_t rank = code / kFailureKinds % size;
  const auto index = static_cast<size_t>(code / kFailureKinds / size);
  const auto of_parameter = [&](absl::string_view what) {
    return absl::FailedPreconditionError(
        absl::StrCat("the step was not taken: parameter \"",
                     plan_.specs[index].name, "\" ", what, " on rank ", rank));
  };
  switch (kind) {
    case FailureKind::kTooManyCheckIns:
      return of_parameter(
          "was checked in more often than there are micro-batches");
    case FailureKind::kTooFewCheckIns:
      return of_parameter(
          "was checked in less often than there are micro-batches");
    case FailureKind::kWrongGradient:
      return of_parameter(
          "was checked in with a gradient of the wrong size or dtype");
    case FailureKind::kDoesNotLiveHere:
      return of_parameter("was checked in where it does not live,");
    case FailureKind::kFailedReduction:
      return absl::AbortedError(
          absl::StrCat("the step was not taken: the reduction of the bucket "
                       "of parameter \"",
                       plan_.specs[index].name, "\" failed on rank ", rank));
    case FailureKind::kStepOptions: {
      const StepField field = FieldsOf({}, schedules_)[index];
      return absl::InvalidArgumentError(absl::StrCat(
          "the step was not taken: rank ", rank, " gave ", field.name,
          " out of range; want it ", RangeText(field)));
    }
    case FailureKind::kLearningRate:
      return absl::InvalidArgumentError(
          absl::StrCat("the step was not taken: rank ", rank,
                       " gave parameter \"", plan_.specs[index].name,
                       "\" a learning rate that is too large for f32"));
    case FailureKind::kUnknownSchedule:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the step was not taken: rank ", rank,
                   " gave the factor of a schedule that no parameter has"));
}

absl::Status ControlVector::CheckFacts(
    const ControlInput& input, const std::vector<int64_t>& least) const {
  const std::vector<Fact> facts = FactsOf(input, schedules_);
  for (size_t f = 0; f < facts.size(); ++f) {
    if (least[2 * f] == -least[2 * f + 1]) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("step ", input.step, " was not taken: the ", facts[f].name,
                     " is not the same on all ranks"));
  }
  return absl::OkStatus();
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
  if (const int64_t failure = least[2 * fact_count_]; failure != kNoFailure) {
    decision.status = FailureStatus(failure);
    decision.reduction_failed =
        failure % kFailureKinds ==
        static_cast<int64_t>(FailureKind::kFailedReduction);
    return decision;
  }
  decision.status = CheckFacts(input, least);
  if (!decision.status.ok()) return decision;
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
  // Replicas of what was counted would count it again.
  outcome.non_finite_count =
      sums[kNonFinite] > 0 ? sums[kNonFinite] : sums[kUncountedNonFinite];
  const StepOptions& options = input.options;
  outcome.gradient_norm = GlobalNorm(squared_norm, options.loss_scale);
  outcome.clip_factor = ClipFactor(outcome.gradient_norm, options.clip_norm);
  outcome.updated = outcome.non_finite_count == 0;
  decision.gradient_factor =
      GradientFactor(outcome.clip_factor, options.loss_scale);
  if (outcome.updated &&
      !GradientFactorFits(outcome.gradient_norm, outcome.clip_factor,
                          options.loss_scale)) {
    outcome.updated = false;
    decision.status = absl::FailedPreconditionError(absl::StrCat(
        "step ", input.step,
        " was not taken: want a loss scale with which f32 ",
        "holds the gradients and their factor, got ", options.loss_scale,
        " with a norm of ", outcome.gradient_norm, " and a clip factor of ",
        outcome.clip_factor));
  }
  return decision;
}

}  // namespace muonshard
