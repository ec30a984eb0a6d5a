#include "testing/reference_run.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/compute/convert.h"
#include "optimizer/muon_options.h"
#include "optimizer/unsharded/gradient_places.h"
#include "testing/unit_roundoff.h"

namespace muonshard::testing {
namespace {

using Values = std::vector<double>;

Values ToDoubles(DataType type, const ParameterBytes& bytes) {
  std::vector<float> floats(bytes.size() / ByteWidth(type));
  ToFloat(type, bytes.data(), floats);
  return {floats.begin(), floats.end()};
}

ReferenceGradients GradientsAt(const ShardedCase& sharded,
                               const GradientPlace& place, int64_t step,
                               double loss_scale) {
  const DataType type =
      sharded.specs[static_cast<size_t>(place.parameter)].gradient_dtype;
  ReferenceGradients gradients;
  for (const std::vector<Rank>& group : place.groups) {
    for (const Rank rank : group) {
      auto& check_ins = gradients.emplace_back();
      const int32_t count =
          CheckInCountOf(sharded, rank, place.parameter, step);
      for (int32_t i = 0; i < count; ++i) {
        check_ins.push_back(ToDoubles(
            type,
            GradientOf(sharded, rank, place.parameter, step, i, loss_scale)));
      }
    }
  }
  return gradients;
}

ReferenceOptimizer MakeOptimizer(const ShardedCase& sharded, const Mesh& mesh,
                                 const std::vector<GradientPlace>& places) {
  std::vector<ParameterSpec> specs;
  std::vector<int64_t> divisors;
  std::vector<Values> values;
  for (const GradientPlace& place : places) {
    specs.push_back(sharded.specs[static_cast<size_t>(place.parameter)]);
    divisors.push_back(place.divisor);
    values.push_back(ToDoubles(
        specs.back().dtype,
        FirstValuesOf(sharded, mesh, place.groups[0][0], place.parameter)));
  }
  return ReferenceOptimizer(std::move(specs), sharded.options,
                            std::move(divisors), std::move(values));
}

// Some 32 roundings of f32 stand before the iteration (fold, unscaling, clip,
// momentum, norm; sums of momentum may cancel to a half), and as many in each
// of its steps. It multiplies what is relative to a norm of 1 by at most the
// product of its linear coefficients.
double MuonBound(const MuonOptions& muon, const ParameterSpec& spec) {
  const double rows = static_cast<double>(spec.shape[spec.shape.size() - 2]);
  const double cols = static_cast<double>(spec.shape.back());
  const double matrices =
      static_cast<double>(ElementCount(spec)) / (rows * cols) *
      static_cast<double>(std::max<size_t>(1, spec.blocks.sizes.size()));
  double amplification = 1;
  for (const NewtonSchulzCoefficients& step : StepCoefficients(muon)) {
    amplification *= step.a;
  }
  // Of sqrt(fan_out / fan_in) and of 0.2 sqrt(max(fan_out, fan_in)).
  const double scale = std::sqrt(std::max(rows, cols));
  return 32 * kF32Roundoff * amplification * scale * std::sqrt(matrices) *
         muon.learning_rate * spec.learning_rate_scale;
}

// Both moments are sums of few terms, none larger than twice the root of the
// second moment, which divides.
double AdamWBound(const AdamWOptions& adamw, const ParameterSpec& spec) {
  return 32 * kF32Roundoff * adamw.learning_rate * spec.learning_rate_scale *
         std::sqrt(static_cast<double>(ElementCount(spec)));
}

}  // namespace

absl::StatusOr<ReferenceRun> RunReference(const ShardedCase& sharded) {
  absl::StatusOr<Mesh> mesh = Mesh::Parse(sharded.mesh);
  if (!mesh.ok()) return mesh.status();
  absl::StatusOr<std::vector<GradientPlace>> places = GradientPlaces(
      sharded.specs, *mesh, HostsOf(sharded, *mesh), Hierarchy::kOff);
  if (!places.ok()) return places.status();
  absl::StatusOr<GradScaler> scaler =
      GradScaler::Create(sharded.scaler.value_or(GradScalerOptions()));
  if (!scaler.ok()) return scaler.status();
  ReferenceOptimizer optimizer = MakeOptimizer(sharded, *mesh, *places);
  ReferenceRun run;
  for (int64_t step = 1; step <= sharded.steps; ++step) {
    StepOptions options;
    if (sharded.step_options) options = sharded.step_options(step);
    options.clip_norm = sharded.clip_norm;
    if (sharded.scaler.has_value()) options.loss_scale = scaler->scale();
    std::vector<ReferenceGradients> gradients;
    for (const GradientPlace& place : *places) {
      gradients.push_back(
          GradientsAt(sharded, place, step, options.loss_scale));
    }
    absl::StatusOr<ReferenceOutcome> outcome =
        optimizer.Step(gradients, options);
    if (!outcome.ok() && !sharded.goes_on_after_errors) {
      return outcome.status();
    }
    run.outcomes.push_back(outcome.value_or(ReferenceOutcome()));
    if (outcome.ok()) {
      scaler->Update({.step = step,
                      .updated = outcome->updated,
                      .non_finite_count = outcome->updated ? 0 : 1});
    }
  }
  run.parameters.assign(static_cast<size_t>(mesh->size()),
                        std::vector<Values>(sharded.specs.size()));
  for (size_t i = 0; i < places->size(); ++i) {
    for (const Rank rank : RanksOf((*places)[i])) {
      run.parameters[static_cast<size_t>(ToInt(rank))]
                    [static_cast<size_t>((*places)[i].parameter)] =
          optimizer.parameter(i);
    }
  }
  return run;
}

double ReferenceBound(const ShardedCase& sharded, const ParameterSpec& spec) {
  const double step = spec.rule == Rule::kMuon
                          ? MuonBound(sharded.options.muon, spec)
                          : AdamWBound(sharded.options.adamw, spec);
  // Values start below 1/2, and no step moves one by more than its rate and
  // scale; they are rounded to f32 a few times a step and to their own type
  // once, with masters, or once a step.
  const double largest = 1.5;
  const double root = std::sqrt(static_cast<double>(ElementCount(spec)));
  const double type_roundings =
      sharded.options.master_weights ? 1 : sharded.steps;
  return sharded.steps * (step + 4 * kF32Roundoff * largest * root) +
         type_roundings * UnitRoundoff(spec.dtype) * largest * root;
}

}  // namespace muonshard::testing
