#include "testing/reference_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing/known_spectra.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

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

// An iteration that only normalizes, so that results can be had by hand.
OptimizerOptions NormalizeOnly() {
  OptimizerOptions options;
  options.muon.coefficient_set = NewtonSchulzSet::kCustom;
  options.muon.custom_coefficients = {{1, 0, 0}};
  options.muon.newton_schulz_steps = 1;
  return options;
}

TEST(ReferenceNewtonSchulzTest, AppliesThePolynomialToEachSingularValue) {
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kCustom;
  options.custom_coefficients = {{3.4445, -4.7750, 2.0315}, {2, -1.5, 0.5}};
  options.newton_schulz_steps = 4;
  for (const auto& [rows, cols] :
       {std::pair{12, 12}, {7, 30}, {30, 7}, {1, 9}, {9, 1}}) {
    const SingularVectors vectors(rows, cols, 5);
    std::vector<double> values = LogSpectrum(std::min(rows, cols), 1e-3);
    const std::vector<double> x = vectors.Compose(values);
    double norm = 0;
    for (const double value : values) norm += value * value;
    norm = std::sqrt(norm);
    for (double& s : values) {
      s /= norm;
      for (int step = 0; step < options.newton_schulz_steps; ++step) {
        const auto [a, b, c] = options.custom_coefficients[step == 0 ? 0 : 1];
        s = a * s + b * std::pow(s, 3) + c * std::pow(s, 5);
      }
    }
    EXPECT_LT(RelativeDifference(ReferenceNewtonSchulz(x, rows, cols, options),
                                 vectors.Compose(values)),
              1e-12)
        << rows << " x " << cols;
  }
}

TEST(ReferenceNewtonSchulzTest, AolDividesRowsByTheirSumsOfProducts) {
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kCustom;
  options.custom_coefficients = {{2, 0, 0}};
  options.pre_scaling = PreScaling::kAol;
  // Products of the rows (3, 0, 4) and (1, 0, -2) are 25, -5 and 5.
  const double first = 2 * 0.85 / std::sqrt(25 + 5);
  const double second = 2 * 0.85 / std::sqrt(5 + 5);
  EXPECT_THAT(ReferenceNewtonSchulz({3, 0, 4, 1, 0, -2}, 2, 3, options),
              Pointwise(DoubleNear(1e-15),
                        {3 * first, 0.0, 4 * first, second, 0.0, -2 * second}));
  EXPECT_THAT(ReferenceNewtonSchulz({3, 1, 0, 0, 4, -2}, 3, 2, options),
              Pointwise(DoubleNear(1e-15),
                        {3 * first, second, 0.0, 0.0, 4 * first, -2 * second}));
}

TEST(RelativeDifferenceTest, IsAbsoluteAgainstZero) {
  EXPECT_DOUBLE_EQ(RelativeDifference({3, 4}, {0, 0}), 5);
  EXPECT_DOUBLE_EQ(RelativeDifference({2, 0}, {1, 0}), 1);
}

TEST(ReferenceOptimizerTest, TheFirstAdamWStepIsTheSignOfTheGradient) {
  OptimizerOptions options;
  options.adamw.learning_rate = 0.5;
  options.adamw.weight_decay = 0.1;
  options.adamw.epsilon = 1e-300;
  ReferenceOptimizer optimizer({Vector("v", 2)}, options, {2}, {{1.0, -2.0}});
  // Two ranks, the first with two micro-batches: averages are 4 and -0.5.
  const ReferenceGradients gradients = {{{1, 1}, {2, -2}}, {{5, 0}}};
  const auto outcome = optimizer.Step({gradients}, 0);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_TRUE(outcome->updated);
  EXPECT_DOUBLE_EQ(outcome->gradient_norm, std::hypot(4, 0.5));
  EXPECT_THAT(optimizer.parameter(0),
              Pointwise(DoubleNear(1e-15), {0.95 - 0.5, -1.9 + 0.5}));
}

TEST(ReferenceOptimizerTest, AMatrixMovesAgainstItsNormalizedMomentum) {
  OptimizerOptions options = NormalizeOnly();
  options.muon.learning_rate = 0.5;
  options.muon.weight_decay = 0;
  options.muon.scale = MuonScale::kFanRatio;
  // The second matrix of the bank has a gradient of another size, and the same
  // direction after all.
  ReferenceOptimizer optimizer({Matrix("m", {2, 1, 2})}, options, {1},
                               {{0, 0, 0, 0}});
  ASSERT_THAT(optimizer.Step({{{{3, 4, 30, 40}}}}, 0), IsOk());
  const double scale = 0.5 * std::sqrt(0.5);
  EXPECT_THAT(optimizer.parameter(0),
              Pointwise(DoubleNear(1e-15), {-0.6 * scale, -0.8 * scale,
                                            -0.6 * scale, -0.8 * scale}));
}

TEST(ReferenceOptimizerTest, BlocksAreScaledByTheirOwnShapes) {
  OptimizerOptions options = NormalizeOnly();
  options.muon.learning_rate = 1;
  options.muon.weight_decay = 0;
  ParameterSpec stacked = Matrix("rows", {5, 1});
  stacked.blocks = {.dimension = 0, .sizes = {4, 1}};
  ParameterSpec beside = Matrix("cols", {1, 5});
  beside.blocks = {.dimension = 1, .sizes = {4, 1}};
  beside.fan_out_dimension = 1;
  ReferenceOptimizer optimizer({stacked, beside}, options, {1, 1},
                               {{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}});
  const ReferenceGradients ones = {{{1, 1, 1, 1, 1}}};
  ASSERT_THAT(optimizer.Step({ones, ones}, 0), IsOk());
  // 4 x 1: each element is 1/2, times sqrt(4 / 1).
  EXPECT_THAT(optimizer.parameter(0), ElementsAre(-1, -1, -1, -1, -1));
  EXPECT_THAT(optimizer.parameter(1), ElementsAre(-1, -1, -1, -1, -1));
}

TEST(ReferenceOptimizerTest, PaddingEntersNeitherMatrixNorScaleNorNorm) {
  OptimizerOptions options = NormalizeOnly();
  options.muon.learning_rate = 1;
  options.muon.weight_decay = 0;
  ParameterSpec below = Matrix("rows", {5, 1});
  below.blocks = {.dimension = 0, .sizes = {}, .padding = 1};
  ParameterSpec beside = Matrix("cols", {2, 3});
  beside.blocks = {.dimension = 1, .sizes = {1, 1}, .padding = 1};
  ReferenceOptimizer optimizer({below, beside}, options, {1, 1},
                               {{0, 0, 0, 0, 7}, {0, 0, 7, 0, 0, 7}});
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const auto outcome =
      optimizer.Step({{{{1, 1, 1, 1, kNaN}}}, {{{3, 1, kNaN, 4, 0, kNaN}}}}, 0);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_DOUBLE_EQ(outcome->gradient_norm, std::sqrt(4 + 26));
  // 4 x 1: each element is 1/2, times sqrt(4 / 1).
  EXPECT_THAT(optimizer.parameter(0), ElementsAre(-1, -1, -1, -1, 7));
  // 2 x 1 each, times sqrt(2 / 1).
  EXPECT_THAT(
      optimizer.parameter(1),
      Pointwise(DoubleNear(1e-15), {-0.6 * std::sqrt(2), -std::sqrt(2), 7.0,
                                    -0.8 * std::sqrt(2), 0.0, 7.0}));
}

TEST(ReferenceOptimizerTest, CautiousDecaySparesWeightsOfTheOtherSign) {
  OptimizerOptions options = NormalizeOnly();
  options.muon.weight_decay_kind = WeightDecay::kCautious;
  options.muon.learning_rate = 0.5;
  options.muon.weight_decay = 0.5;
  ReferenceOptimizer optimizer({Matrix("w", {1, 4})}, options, {1},
                               {{4, -4, 0, 4}});
  ASSERT_THAT(optimizer.Step({{{{1, 1, 1, 0}}}}, 0), IsOk());
  const double step = 0.5 / std::sqrt(3);
  EXPECT_THAT(optimizer.parameter(0),
              Pointwise(DoubleNear(1e-15), {3 - step, -4 - step, -step, 3.0}));
}

TEST(ReferenceOptimizerTest, NormalizedNeuronsAreOfOneSizeAtFirst) {
  for (const int32_t fan_out_dimension : {0, 1}) {
    OptimizerOptions options = NormalizeOnly();
    options.muon.learning_rate = 1;
    options.muon.weight_decay = 0;
    options.muon.epsilon = 1e-300;
    options.muon.scale = MuonScale::kMatchAdamWRms;
    options.muon.rms_factor = 3;
    options.muon.row_normalization = true;
    ParameterSpec spec = Matrix("w", {2, 2});
    spec.fan_out_dimension = fan_out_dimension;
    ReferenceOptimizer optimizer({spec}, options, {1}, {{0, 0, 0, 0}});
    const bool rows = fan_out_dimension == 0;
    // Neurons (3, 4) and (30, 40).
    const std::vector<double> gradient =
        rows ? std::vector<double>{3, 4, 30, 40}
             : std::vector<double>{3, 30, 4, 40};
    ASSERT_THAT(optimizer.Step({{{gradient}}}, 0), IsOk());
    // The norm is 1, half of its square in each.
    const double scale = -3 * std::sqrt(2) * std::sqrt(0.5);
    const double a = 0.6 * scale;
    const double b = 0.8 * scale;
    EXPECT_THAT(
        optimizer.parameter(0),
        Pointwise(DoubleNear(1e-14), rows ? std::vector<double>{a, b, a, b}
                                          : std::vector<double>{a, a, b, b}));
  }
}

TEST(ReferenceOptimizerTest, NonFiniteGradientsChangeNothing) {
  ReferenceOptimizer optimizer({Vector("v", 1)}, {}, {1}, {{7}});
  const auto outcome =
      optimizer.Step({{{{std::numeric_limits<double>::infinity()}}}}, 0);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_FALSE(outcome->updated);
  EXPECT_THAT(optimizer.parameter(0), ElementsAre(7));
}

TEST(ReferenceOptimizerTest, ClippingScalesTheGradientOfAMomentum) {
  OptimizerOptions options;
  options.adamw.beta1 = 0;
  options.adamw.beta2 = 0;
  options.adamw.weight_decay = 0;
  options.adamw.learning_rate = 1;
  options.adamw.epsilon = 1;
  ReferenceOptimizer optimizer({Vector("v", 2)}, options, {1}, {{0, 0}});
  ASSERT_THAT(optimizer.Step({{{{3, 4}}}}, 1), IsOk());
  // Clipped to 0.6 and 0.8 but for the floor of the norm.
  EXPECT_THAT(optimizer.parameter(0),
              Pointwise(DoubleNear(1e-6), {-0.6 / 1.6, -0.8 / 1.8}));
}

TEST(ReferenceOptimizerTest, TheLossScaleIsDividedOutBeforeNormAndClip) {
  OptimizerOptions options;
  ReferenceOptimizer plain({Vector("v", 2)}, options, {2}, {{1, 2}});
  ReferenceOptimizer scaled({Vector("v", 2)}, options, {2}, {{1, 2}});
  const StepOptions clip{.clip_norm = 0.5};
  StepOptions clip_and_scale = clip;
  clip_and_scale.loss_scale = 8;
  const auto plain_outcome = plain.Step({{{{3, 4}}}}, clip);
  const auto scaled_outcome = scaled.Step({{{{24, 32}}}}, clip_and_scale);
  ASSERT_THAT(plain_outcome, IsOk());
  ASSERT_THAT(scaled_outcome, IsOk());
  EXPECT_EQ(plain_outcome->gradient_norm, 2.5);
  EXPECT_EQ(scaled_outcome->gradient_norm, 2.5);
  EXPECT_EQ(plain.parameter(0), scaled.parameter(0));
}

TEST(ReferenceOptimizerTest, AScheduleScalesTheRatesOfItsParameters) {
  OptimizerOptions options;
  options.adamw.weight_decay = 0;
  ParameterSpec scheduled = Vector("scheduled", 1);
  scheduled.schedule = "warm";
  ReferenceOptimizer optimizer({scheduled, Vector("other", 1)}, options, {1, 1},
                               {{0}, {0}});
  StepOptions step;
  step.adamw_learning_rate = 0.5;
  step.schedule_factors["warm"] = 0.25;
  ASSERT_THAT(optimizer.Step({{{{1}}}, {{{1}}}}, step), IsOk());
  EXPECT_NEAR(optimizer.parameter(0)[0], -0.125, 1e-8);
  EXPECT_NEAR(optimizer.parameter(1)[0], -0.5, 1e-8);
}

TEST(ReferenceOptimizerTest, AbsentGradientsAreAnErrorOrZerosOrSkipped) {
  ParameterSpec error = Vector("wanted", 1);
  ParameterSpec zeros = Vector("zeros", 1);
  zeros.absent_gradient = AbsentGradient::kZeros;
  ParameterSpec skip = Vector("skip", 1);
  skip.absent_gradient = AbsentGradient::kSkip;
  OptimizerOptions options;
  options.adamw.learning_rate = 0.5;
  options.adamw.weight_decay = 1;
  ReferenceOptimizer optimizer({error, zeros, skip}, options, {1, 1, 1},
                               {{4}, {4}, {4}});
  EXPECT_THAT(optimizer.Step({{{}}, {{}}, {{}}}, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, "wanted"));
  ASSERT_THAT(optimizer.Step({{{{0}}}, {{}}, {{}}}, 0), IsOk());
  EXPECT_THAT(optimizer.parameter(1), ElementsAre(2));
  EXPECT_THAT(optimizer.parameter(2), ElementsAre(4));
}

}  // namespace
}  // namespace muonshard::testing
