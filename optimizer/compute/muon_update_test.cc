#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "optimizer/compute/muon_case.h"
#include "optimizer/compute/newton_schulz.h"
#include "testing/unit_roundoff.h"

namespace muonshard {
namespace {

using testing::kF32Roundoff;
using testing::UnitRoundoff;

// The header's formulas in fp64, for one block and an iteration that only
// normalizes; `scale` is the factor that the rule gives.
void CheckAgainstFormula(MuonCase test, double scale) {
  const std::vector<float> gradient =
      Rounded(test.gradient_dtype, test.gradient);
  const std::vector<float> parameter =
      Rounded(test.parameter_dtype, test.parameter);
  const double beta = test.options.momentum;
  std::vector<double> momentum(gradient.size());
  std::vector<double> direction(gradient.size());
  double squares = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double g = test.factors.gradient_factor * double{gradient[i]};
    momentum[i] = beta * double{test.momentum[i]} + (1 - beta) * g;
    direction[i] = test.options.nesterov ? (1 - beta) * g + beta * momentum[i]
                                         : momentum[i];
    squares += direction[i] * direction[i];
  }
  const double norm = std::max(std::sqrt(squares), test.options.epsilon);
  const double lr = test.factors.learning_rate;
  const std::vector<float> result = Update(test);
  // A handful of roundings of values up to 1 for f32; one of the type besides.
  const double type_roundoff = test.parameter_dtype == DataType::kF32
                                   ? 0
                                   : UnitRoundoff(test.parameter_dtype);
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double expected =
        double{parameter[i]} * (1 - lr * test.factors.weight_decay) -
        lr * scale * direction[i] / norm;
    EXPECT_NEAR(double{result[i]}, expected,
                16 * kF32Roundoff * (1 + lr * scale) +
                    type_roundoff * std::abs(expected))
        << i;
    EXPECT_NEAR(double{test.momentum[i]}, momentum[i], 4 * kF32Roundoff) << i;
  }
}

TEST(MuonUpdateTest, FollowsItsFormula) {
  CheckAgainstFormula(SmallMuonCase(), 1);
}

TEST(MuonUpdateTest, EachHyperParameterActsAsItsFormulaSays) {
  MuonCase test = SmallMuonCase();
  test.factors.learning_rate = 0.1;
  CheckAgainstFormula(test, 1);
  test.factors.weight_decay = 0;
  CheckAgainstFormula(test, 1);
  test.factors.gradient_factor = 0.125;
  CheckAgainstFormula(test, 1);
  test.options.momentum = 0.5;
  CheckAgainstFormula(test, 1);
  test.options.momentum = 0;
  CheckAgainstFormula(test, 1);
  test.options.momentum = 0.75;
  test.options.nesterov = false;
  CheckAgainstFormula(test, 1);
  test.options.epsilon = 100;
  CheckAgainstFormula(test, 1);
}

TEST(MuonUpdateTest, TheScaleFollowsTheShapeAndTheFanOutDimension) {
  MuonCase wide = SmallMuonCase();
  MuonCase tall = SmallMuonCase();
  tall.unit.rows = 4;
  tall.unit.cols = 3;
  wide.options.scale = tall.options.scale = MuonScale::kSpectral;
  CheckAgainstFormula(wide, 1);
  CheckAgainstFormula(tall, std::sqrt(4.0 / 3));
  wide.unit.fan_out_dimension = tall.unit.fan_out_dimension = 1;
  CheckAgainstFormula(wide, std::sqrt(4.0 / 3));
  CheckAgainstFormula(tall, 1);
  wide.options.scale = tall.options.scale = MuonScale::kFanRatio;
  CheckAgainstFormula(wide, std::sqrt(4.0 / 3));
  CheckAgainstFormula(tall, std::sqrt(3.0 / 4));
  wide.options.scale = MuonScale::kMatchAdamWRms;
  CheckAgainstFormula(wide, 0.2 * 2);
  tall.options.scale = MuonScale::kNone;
  CheckAgainstFormula(tall, 1);
}

TEST(MuonUpdateTest, EveryPairOfTypesIsReadAndRoundedOnce) {
  for (const DataType gradient :
       {DataType::kF32, DataType::kBF16, DataType::kF16}) {
    for (const DataType parameter :
         {DataType::kF32, DataType::kBF16, DataType::kF16}) {
      SCOPED_TRACE(std::string(DataTypeName(gradient)) + " " +
                   std::string(DataTypeName(parameter)));
      MuonCase test = SmallMuonCase();
      test.gradient_dtype = gradient;
      test.parameter_dtype = parameter;
      CheckAgainstFormula(test, 1);
      // Narrow parameters are those of f32, rounded.
      MuonCase exact = test;
      exact.parameter_dtype = DataType::kF32;
      exact.parameter = Rounded(parameter, test.parameter);
      EXPECT_EQ(Update(test), Rounded(parameter, Update(exact)));
    }
  }
}

// Weights and directions of either sign, of zero, and so small that their
// product is not.
TEST(MuonUpdateTest, CautiousDecaySparesWeightsOfTheOtherSign) {
  constexpr float kTiny = 1e-30f;
  MuonCase test;
  test.options = NormalizeOnly();
  test.options.momentum = 0;
  test.options.scale = MuonScale::kNone;
  test.factors = {.learning_rate = 0.5,
                  .weight_decay = 0.5,
                  .gradient_factor = 1,
                  .step = 1};
  test.gradient = {1, 1, 1, -1, -1, 0, 0, 0, kTiny, kTiny, -kTiny, -kTiny};
  test.parameter = {4, -4, 0, 4, -4, 4, -4, 0, kTiny, -kTiny, kTiny, -kTiny};
  const std::vector<bool> decays = {true, false, true, false, true,  true,
                                    true, true,  true, false, false, true};
  test.unit = {
      .rows = 3, .cols = 4, .column_blocks = {}, .fan_out_dimension = 0};
  test.momentum.assign(12, 0.0f);
  MuonCase cautious = test;
  cautious.options.weight_decay_kind = WeightDecay::kCautious;
  MuonCase without = test;
  without.factors.weight_decay = 0;
  const std::vector<float> decoupled = Update(test);
  const std::vector<float> undecayed = Update(without);
  const std::vector<float> result = Update(cautious);
  for (size_t i = 0; i < result.size(); ++i) {
    EXPECT_EQ(result[i], decays[i] ? decoupled[i] : undecayed[i]) << i;
  }
  EXPECT_EQ(decoupled[5], 3);
}

TEST(MuonUpdateTest, WithoutRowNormalizationThereAreNoRowMoments) {
  EXPECT_EQ(MuonRowMomentCount(SmallMuonCase().unit, {}), 0);
}

// Powers of two: the direction keeps its bits at any scale that f32 holds.
TEST(MuonUpdateTest, TheScaleOfGradientsDoesNotMatter) {
  MuonCase test = SmallMuonCase();
  test.options = {};
  test.options.epsilon = 1e-300;
  test.momentum.assign(12, 0.0f);
  const MuonCase before = test;
  const std::vector<float> expected = Update(test);
  // 2^-100 is about 8e-31, and 2^50 about 1e15.
  for (const int exponent : {-100, -50, 50}) {
    MuonCase scaled = before;
    for (float& value : scaled.gradient) value = std::ldexp(value, exponent);
    EXPECT_EQ(Update(scaled), expected) << exponent;
    for (size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(scaled.momentum[i], std::ldexp(test.momentum[i], exponent));
    }
  }
}

TEST(MuonUpdateTest, TinyAndHugeGradientsGiveFiniteUpdates) {
  for (const double size : {1e-30, 1e15}) {
    for (const bool normalized : {false, true}) {
      MuonCase test = SmallMuonCase();
      test.options = {};
      test.options.row_normalization = normalized;
      test.row_moments.assign(3, 0.0f);
      for (float& value : test.gradient) value *= static_cast<float>(size);
      test.momentum.assign(12, 0.0f);
      const std::vector<float> before = test.parameter;
      const std::vector<float> result = Update(test);
      for (size_t i = 0; i < 12; ++i) {
        // A singular value of at most 1.3 moves a weight by at most the rate.
        EXPECT_LE(std::abs(result[i] - before[i] * 0.875f), 0.5f * 1.3f);
      }
    }
  }
}

TEST(MuonUpdateTest, TheFactorIsThatOfNewtonSchulz) {
  MuonCase test = SmallMuonCase();
  test.options = {};
  test.options.momentum = 0;
  test.factors = {
      .learning_rate = 1, .weight_decay = 0, .gradient_factor = 1, .step = 1};
  test.parameter.assign(12, 0.0f);
  std::vector<float> expected(12);
  std::vector<float> workspace(
      static_cast<size_t>(NewtonSchulzWorkspaceCount(3, 4, test.options)));
  NewtonSchulz(test.gradient, 3, 4, test.options, workspace, expected);
  for (float& value : expected) value = -value;
  EXPECT_EQ(Update(test), expected);
}

TEST(MuonUpdateTest, OutMayBeAnotherBufferAtAnyAlignment) {
  constexpr size_t kCount = 30 * 35;
  const std::vector<float> gradient = Wave(kCount, 1.0);
  const std::vector<float> start = Wave(kCount, 0.7);
  const MuonUnit unit = {
      .rows = 30, .cols = 35, .column_blocks = {}, .fan_out_dimension = 0};
  const UpdateFactors factors = {.learning_rate = 0.1,
                                 .weight_decay = 0.1,
                                 .gradient_factor = 1,
                                 .step = 1};
  std::vector<float> expected;
  for (size_t offset = 0; offset < 9; ++offset) {
    std::vector<float> in(offset), out(kCount + offset, 9.0f);
    std::vector<float> momentum(kCount + offset);
    in.insert(in.end(), start.begin(), start.end());
    std::vector<float> workspace(
        static_cast<size_t>(MuonWorkspaceCount(unit, {})) + offset);
    MuonUpdate(
        unit, {}, factors, DataType::kF32, gradient.data(),
        {.momentum = std::span(momentum).subspan(offset), .row_moments = {}},
        DataType::kF32, in.data() + offset, out.data() + offset,
        std::span(workspace).subspan(offset));
    const std::vector<float> result(out.end() - kCount, out.end());
    if (offset == 0) expected = result;
    EXPECT_EQ(result, expected);
    EXPECT_EQ(std::vector<float>(in.end() - kCount, in.end()), start);
  }
}

}  // namespace
}  // namespace muonshard
