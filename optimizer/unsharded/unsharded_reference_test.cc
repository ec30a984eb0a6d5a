#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <string>

#include "optimizer/compute/convert.h"
#include "optimizer/unsharded/unsharded_optimizer.h"
#include "testing/known_spectra.h"
#include "testing/reference_optimizer.h"
#include "testing/status_matchers.h"
#include "testing/unit_roundoff.h"

namespace muonshard {
namespace {

using testing::IsOk;
using testing::RandomValues;
using testing::ReferenceGradients;
using testing::ReferenceOptimizer;

using Bytes = std::vector<std::byte>;

Bytes As(DataType type, const std::vector<float>& values) {
  Bytes bytes(values.size() * ByteWidth(type));
  FromFloat(type, values, bytes.data());
  return bytes;
}

std::vector<float> RandomFloats(const ParameterSpec& spec, uint64_t seed) {
  const std::vector<double> values = RandomValues(ElementCount(spec), seed);
  return {values.begin(), values.end()};
}

ParameterSpec Vector(std::string name, int64_t count) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = {count};
  return spec;
}

ParameterSpec Matrix(std::string name, std::vector<int64_t> shape) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = std::move(shape);
  spec.rule = Rule::kMuon;
  return spec;
}

std::vector<float> ValueOf(const UnshardedOptimizer& optimizer, size_t index) {
  const std::span<const std::byte> bytes = optimizer.parameter(index);
  std::vector<float> values(bytes.size() / sizeof(float));
  ToFloat(DataType::kF32, bytes.data(), values);
  return values;
}

// Specs of every kind of unit, for comparison with the fp64 reference.
std::vector<ParameterSpec> SpecsOfEveryKind() {
  ParameterSpec stacked = Matrix("stacked", {15, 12});
  stacked.blocks = {.dimension = 0, .sizes = {3, 12}};
  ParameterSpec beside = Matrix("beside", {10, 16});
  beside.blocks = {.dimension = 1, .sizes = {4, 1, 11}};
  beside.fan_out_dimension = 1;
  ParameterSpec bank = Matrix("bank", {3, 7, 5});
  bank.learning_rate_scale = 0.5;
  ParameterSpec plain = Vector("plain", 300);
  ParameterSpec bias = Vector("bias", 5);
  bias.weight_decay = false;
  bias.learning_rate_scale = 2;
  return {Matrix("square", {16, 16}), stacked, beside, bank,
          Matrix("row", {1, 20}),     plain,   bias};
}

// Over `steps` steps of `contributions` random gradients each. Muon: some 16
// roundings of unit roundoff u stand before the iteration, which multiplies
// them, and its own, by at most a_1 ... a_T; u a_1 ... a_T sqrt(m) is the bound
// of one. AdamW: as many roundings of values up to 1 are divided by at least
// epsilon.
double DifferenceBound(const ParameterSpec& spec,
                       const OptimizerOptions& options, int steps) {
  const double u = testing::kF32Roundoff;
  const double count = static_cast<double>(ElementCount(spec));
  // The weights themselves are rounded a few times a step.
  const double weights = 4 * u * std::sqrt(count) * 2;
  if (spec.rule == Rule::kAdamW) {
    const double rate = options.adamw.learning_rate * spec.learning_rate_scale;
    return steps *
           (weights + 32 * u * rate / options.adamw.epsilon * std::sqrt(count));
  }
  double amplification = 1;
  for (const NewtonSchulzCoefficients& step : StepCoefficients(options.muon)) {
    amplification *= step.a;
  }
  const double largest_scale = 4;  // Of the shapes above.
  return steps *
         (weights +
          16 * u * amplification * options.muon.learning_rate * largest_scale *
              std::sqrt(count / static_cast<double>(spec.shape.back())));
}

void CompareWithReference(OptimizerOptions options, double clip_norm) {
  constexpr int kSteps = 5;
  constexpr int64_t kRanks = 3;
  options.adamw.epsilon = 0.1;
  std::vector<ParameterSpec> specs = SpecsOfEveryKind();
  std::vector<Bytes> values;
  std::vector<std::vector<double>> reference_values;
  for (size_t i = 0; i < specs.size(); ++i) {
    specs[i].gradient_mode = GradientMode::kAccumulate;
    const std::vector<float> first = RandomFloats(specs[i], 100 + i);
    values.push_back(As(DataType::kF32, first));
    reference_values.emplace_back(first.begin(), first.end());
  }
  const std::vector<int64_t> divisors(specs.size(), kRanks);
  auto optimizer = UnshardedOptimizer::Create(specs, options, divisors, values);
  ASSERT_THAT(optimizer, IsOk());
  ReferenceOptimizer reference(specs, options, divisors, reference_values);

  uint64_t seed = 1000;
  for (int step = 0; step < kSteps; ++step) {
    UnshardedStepInput input;
    input.options.clip_norm = clip_norm;
    std::vector<ReferenceGradients> reference_input;
    std::deque<std::vector<float>> kept;
    for (const ParameterSpec& spec : specs) {
      LocalGradients local;
      local.groups.emplace_back();
      ReferenceGradients doubles;
      for (int64_t rank = 0; rank < kRanks; ++rank) {
        local.groups[0].emplace_back();
        doubles.emplace_back();
        for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
          kept.push_back(RandomFloats(spec, ++seed));
          local.groups[0].back().push_back(kept.back().data());
          doubles.back().emplace_back(kept.back().begin(), kept.back().end());
        }
      }
      input.gradients.push_back(std::move(local));
      reference_input.push_back(std::move(doubles));
    }
    const auto outcome = optimizer->Step(input);
    const auto expected = reference.Step(reference_input, clip_norm);
    ASSERT_THAT(outcome, IsOk());
    ASSERT_THAT(expected, IsOk());
    EXPECT_TRUE(outcome->updated);
    EXPECT_NEAR(outcome->gradient_norm, expected->gradient_norm,
                8 * testing::kF32Roundoff * expected->gradient_norm);
    EXPECT_EQ(outcome->clip_factor<1, clip_norm> 0);
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::vector<float> value = ValueOf(*optimizer, i);
    double squares = 0;
    for (size_t k = 0; k < value.size(); ++k) {
      const double difference = double{value[k]} - reference.parameter(i)[k];
      squares += difference * difference;
    }
    EXPECT_LT(std::sqrt(squares), DifferenceBound(specs[i], options, kSteps))
        << specs[i].name;
  }
}

TEST(UnshardedReferenceTest, StaysWithinItsBoundOfTheFp64Reference) {
  CompareWithReference({}, 0);
}

TEST(UnshardedReferenceTest, ClippedAndScaledOtherwiseItStaysThereToo) {
  OptimizerOptions options;
  options.muon.learning_rate = 0.02;
  options.muon.weight_decay = 0.5;
  options.muon.momentum = 0.8;
  options.muon.nesterov = false;
  options.muon.scale = MuonScale::kMatchAdamWRms;
  options.adamw.learning_rate = 0.05;
  options.adamw.beta1 = 0.5;
  options.adamw.beta2 = 0.9;
  options.adamw.weight_decay = 0.3;
  CompareWithReference(options, 0.5);
}

}  // namespace
}  // namespace muonshard
