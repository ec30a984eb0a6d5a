#include "testing/short_experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "optimizer/compute/convert.h"
#include "optimizer/unsharded/unsharded_optimizer.h"
#include "testing/known_spectra.h"
#include "testing/reference_optimizer.h"
#include "testing/status_matchers.h"
#include "testing/unit_roundoff.h"

namespace muonshard::testing {
namespace {

constexpr int kSteps = 3;

std::vector<double> FirstValues(const ParameterSpec& spec, size_t p) {
  return RandomValues(ElementCount(spec), 10 + p);
}

std::vector<double> Gradient(const ParameterSpec& spec, size_t p, int step) {
  return RandomValues(ElementCount(spec),
                      100 + 10 * p + static_cast<uint64_t>(step));
}

std::vector<float> Floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

Experiment ShortExperiment() {
  Experiment experiment;
  const auto add = [&experiment](std::string name, std::vector<int64_t> shape,
                                 Rule rule) {
    ParameterSpec spec;
    spec.name = std::move(name);
    spec.shape = std::move(shape);
    spec.rule = rule;
    experiment.specs.push_back(std::move(spec));
  };
  add("wide", {6, 10}, Rule::kMuon);
  add("tall", {12, 5}, Rule::kMuon);
  add("vector", {40}, Rule::kAdamW);
  experiment.options.muon.learning_rate = 0.02;
  // Roundings of a gradient are divided by it; see Bound.
  experiment.options.adamw.epsilon = 0.1;
  return experiment;
}

Values Optimize(const Experiment& experiment) {
  std::vector<std::vector<std::byte>> first;
  for (size_t p = 0; p < experiment.specs.size(); ++p) {
    const std::vector<float> values =
        Floats(FirstValues(experiment.specs[p], p));
    first.emplace_back(values.size() * sizeof(float));
    FromFloat(DataType::kF32, values, first.back().data());
  }
  auto optimizer = UnshardedOptimizer::Create(
      experiment.specs, experiment.options,
      std::vector<int64_t>(experiment.specs.size(), 1), first);
  EXPECT_THAT(optimizer, IsOk());
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::vector<float>> gradients;
    UnshardedStepInput input;
    for (size_t p = 0; p < experiment.specs.size(); ++p) {
      gradients.push_back(Floats(Gradient(experiment.specs[p], p, step)));
      input.gradients.push_back({.dtype = DataType::kF32,
                                 .groups = {{{gradients.back().data()}}},
                                 .group_lanes = {}});
    }
    EXPECT_THAT(optimizer->Step(input), IsOk());
  }
  Values result;
  for (size_t p = 0; p < experiment.specs.size(); ++p) {
    std::vector<float> values(
        static_cast<size_t>(ElementCount(experiment.specs[p])));
    ToFloat(DataType::kF32, optimizer->parameter(p).data(), values);
    result.emplace_back(values.begin(), values.end());
  }
  return result;
}

Values OptimizeInFp64(const Experiment& experiment) {
  const auto rounded = [](const std::vector<double>& values) {
    const std::vector<float> floats = Floats(values);
    return std::vector<double>(floats.begin(), floats.end());
  };
  Values first;
  for (size_t p = 0; p < experiment.specs.size(); ++p) {
    first.push_back(rounded(FirstValues(experiment.specs[p], p)));
  }
  ReferenceOptimizer reference(experiment.specs, experiment.options,
                               std::vector<int64_t>(experiment.specs.size(), 1),
                               first);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<ReferenceGradients> gradients;
    for (size_t p = 0; p < experiment.specs.size(); ++p) {
      gradients.push_back({{rounded(Gradient(experiment.specs[p], p, step))}});
    }
    EXPECT_THAT(reference.Step(gradients, 0), IsOk());
  }
  Values result;
  for (size_t p = 0; p < experiment.specs.size(); ++p) {
    result.push_back(reference.parameter(p));
  }
  return result;
}

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(a[i] - b[i], 2);
  return std::sqrt(squares);
}

double LargestDistance(const Values& a, const Values& b) {
  double largest = 0;
  for (size_t p = 0; p < a.size(); ++p) {
    largest = std::max(largest, Distance(a[p], b[p]));
  }
  return largest;
}

double Bound(const Experiment& experiment, size_t p) {
  const ParameterSpec& spec = experiment.specs[p];
  const OptimizerOptions& options = experiment.options;
  const double u = kF32Roundoff;
  const double count = static_cast<double>(ElementCount(spec));
  const double weights = 4 * 2 * u * std::sqrt(count);
  if (spec.rule == Rule::kAdamW) {
    const double rate = options.adamw.learning_rate * spec.learning_rate_scale;
    return kSteps *
           (weights + 32 * u * rate / options.adamw.epsilon * std::sqrt(count));
  }
  const MuonOptions& muon = options.muon;
  // Input and output of f64 are f32 all the same.
  double error = 16 * std::max(u, UnitRoundoff(muon.newton_schulz_dtype)) *
                 std::sqrt(std::min(spec.shape[0], spec.shape[1]));
  for (const NewtonSchulzCoefficients& step : StepCoefficients(muon)) {
    error *= step.a;
  }
  if (muon.iteration == NewtonSchulzIteration::kGram) error *= 16;
  if (muon.row_normalization) error *= 2 * 4;
  const double largest_scale = std::max(2.0, muon.rms_factor * 4);
  return kSteps * (weights + error * muon.learning_rate *
                                 spec.learning_rate_scale * largest_scale);
}

}  // namespace muonshard::testing
