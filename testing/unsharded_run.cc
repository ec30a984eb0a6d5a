#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/unsharded/gradient_places.h"
#include "optimizer/unsharded/unsharded_optimizer.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"

namespace muonshard::testing {
namespace {

// The gradients of a step as the fold wants them, and the memory behind them.
struct StepGradients {
  std::vector<LocalGradients> local;
  std::vector<std::vector<ParameterBytes>> memory;
};

RankGradients OfRank(const ShardedCase& sharded, Rank rank, int32_t p,
                     int64_t step, double loss_scale,
                     StepGradients& gradients) {
  const int32_t check_ins = CheckInCountOf(sharded, rank, p, step);
  const ParameterSpec& spec = sharded.specs[static_cast<size_t>(p)];
  std::vector<ParameterBytes> runs;
  for (int32_t i = 0; i < check_ins; ++i) {
    ParameterBytes fresh = GradientOf(sharded, rank, p, step, i, loss_scale);
    if (spec.gradient_mode != GradientMode::kCopyLast) {
      runs.push_back(std::move(fresh));
      continue;
    }
    // The caller accumulates, in the gradient's type, from zero.
    if (runs.empty()) runs.emplace_back(fresh.size());
    AddGradient(spec.gradient_dtype, fresh, runs[0].data());
  }
  gradients.memory.push_back(std::move(runs));
  RankGradients pointers;
  for (const ParameterBytes& run : gradients.memory.back()) {
    pointers.push_back(run.data());
  }
  return pointers;
}

StepGradients GradientsOf(const ShardedCase& sharded,
                          const std::vector<GradientPlace>& places,
                          int64_t step, double loss_scale) {
  StepGradients gradients;
  for (const GradientPlace& place : places) {
    LocalGradients local;
    local.dtype =
        sharded.specs[static_cast<size_t>(place.parameter)].gradient_dtype;
    local.group_lanes = place.group_lanes;
    local.replica_lanes = place.replica_lanes;
    for (const std::vector<Rank>& group : place.groups) {
      std::vector<RankGradients> ranks;
      for (const Rank rank : group) {
        ranks.push_back(OfRank(sharded, rank, place.parameter, step, loss_scale,
                               gradients));
      }
      local.groups.push_back(std::move(ranks));
    }
    gradients.local.push_back(std::move(local));
  }
  return gradients;
}

// Every parameter at every place is a parameter of its own here.
absl::StatusOr<UnshardedOptimizer> MakeOptimizer(
    const ShardedCase& sharded, const Mesh& mesh,
    const std::vector<GradientPlace>& places) {
  std::vector<ParameterSpec> specs;
  std::vector<int64_t> divisors;
  std::vector<ParameterBytes> values;
  for (const GradientPlace& place : places) {
    specs.push_back(sharded.specs[static_cast<size_t>(place.parameter)]);
    specs.back().name = absl::StrCat(specs.back().name, "@", divisors.size());
    divisors.push_back(place.divisor);
    values.push_back(
        FirstValuesOf(sharded, mesh, place.groups[0][0], place.parameter));
  }
  return UnshardedOptimizer::Create(std::move(specs), sharded.options,
                                    std::move(divisors), std::move(values));
}

absl::StatusOr<StepOutcome> OneStep(const ShardedCase& sharded,
                                    const std::vector<GradientPlace>& places,
                                    int64_t step, double loss_scale,
                                    UnshardedOptimizer& optimizer) {
  for (const ExtraCheckIn& extra : sharded.extra_check_ins) {
    if (extra.step != step) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", ToInt(extra.rank), " checks in once too often"));
  }
  StepGradients gradients = GradientsOf(sharded, places, step, loss_scale);
  UnshardedStepInput input;
  if (sharded.step_options) input.options = sharded.step_options(step);
  input.gradients = std::move(gradients.local);
  input.options.clip_norm = sharded.clip_norm;
  input.options.loss_scale = loss_scale;
  absl::StatusOr<StepOutcome> outcome = optimizer.Step(input);
  if (outcome.ok()) outcome->step = step;
  return outcome;
}

}  // namespace

absl::StatusOr<UnshardedRun> RunUnsharded(const ShardedCase& sharded) {
  absl::StatusOr<Mesh> mesh = Mesh::Parse(sharded.mesh);
  if (!mesh.ok()) return mesh.status();
  absl::StatusOr<std::vector<GradientPlace>> places =
      GradientPlaces(sharded.specs, *mesh, HostsOf(sharded, *mesh),
                     sharded.options.plan.hierarchy);
  if (!places.ok()) return places.status();
  absl::StatusOr<UnshardedOptimizer> optimizer =
      MakeOptimizer(sharded, *mesh, *places);
  if (!optimizer.ok()) return optimizer.status();
  absl::StatusOr<GradScaler> scaler =
      GradScaler::Create(sharded.scaler.value_or(GradScalerOptions()));
  if (!scaler.ok()) return scaler.status();
  UnshardedRun run;
  for (int64_t step = 1; step <= sharded.steps; ++step) {
    const double loss_scale =
        sharded.scaler.has_value() ? scaler->scale() : 1.0;
    absl::StatusOr<StepOutcome> outcome =
        OneStep(sharded, *places, step, loss_scale, *optimizer);
    if (!outcome.ok() && !sharded.goes_on_after_errors) {
      return outcome.status();
    }
    if (outcome.ok()) scaler->Update(*outcome);
    run.step_results.push_back(outcome.status());
    run.outcomes.push_back(outcome.value_or(StepOutcome()));
  }
  run.scaler = scaler->state();
  run.parameters.assign(static_cast<size_t>(mesh->size()),
                        std::vector<ParameterBytes>(sharded.specs.size()));
  for (size_t i = 0; i < places->size(); ++i) {
    const std::span<const std::byte> value = optimizer->parameter(i);
    for (const Rank rank : RanksOf((*places)[i])) {
      run.parameters[static_cast<size_t>(ToInt(rank))]
                    [static_cast<size_t>((*places)[i].parameter)]
                        .assign(value.begin(), value.end());
    }
  }
  return run;
}

}  // namespace muonshard::testing
