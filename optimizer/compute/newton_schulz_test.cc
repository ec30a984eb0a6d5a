#include "optimizer/compute/newton_schulz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/data_type.h"
#include "optimizer/compute/convert.h"
#include "optimizer/muon_options.h"
#include "testing/known_spectra.h"
#include "testing/reference_optimizer.h"

namespace muonshard {
namespace {

using testing::RandomValues;
using testing::ReferenceNewtonSchulz;
using testing::RelativeDifference;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  int64_t rows;
  int64_t cols;
};

// The workspace is full of NaN before, which must not be seen.
template <typename T>
std::vector<T> Orthogonalize(const std::vector<T>& x, const Shape& shape,
                             const MuonOptions& options) {
  std::vector<float> workspace(static_cast<size_t>(NewtonSchulzWorkspaceCount(
                                   shape.rows, shape.cols, options)),
                               kNaN);
  std::vector<T> out(x.size(), T{kNaN});
  NewtonSchulz(std::span<const T>(x), shape.rows, shape.cols, options,
               workspace, std::span<T>(out));
  return out;
}

std::vector<float> RandomMatrix(const Shape& shape, uint64_t seed) {
  const std::vector<double> values =
      RandomValues(shape.rows * shape.cols, seed);
  return {values.begin(), values.end()};
}

template <typename T>
std::vector<T> TimesPowerOfTwo(std::vector<T> x, int exponent) {
  for (T& value : x) value = std::ldexp(value, exponent);
  return x;
}

MuonOptions CustomOptions(std::vector<NewtonSchulzCoefficients> coefficients) {
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kCustom;
  options.custom_coefficients = std::move(coefficients);
  return options;
}

using Variant =
    std::tuple<Shape, NewtonSchulzSet, DataType, NewtonSchulzIteration>;

class VariantsTest : public ::testing::TestWithParam<Variant> {
 protected:
  Shape shape() const { return std::get<0>(GetParam()); }
  std::vector<float> Input(uint64_t seed) const {
    return RandomMatrix(shape(), seed);
  }
  MuonOptions Options() const {
    MuonOptions options;
    options.coefficient_set = std::get<1>(GetParam());
    options.newton_schulz_dtype = std::get<2>(GetParam());
    options.iteration = std::get<3>(GetParam());
    return options;
  }
};

TEST_P(VariantsTest, InPlaceEqualsOutOfPlace) {
  const std::vector<float> x = Input(1);
  std::vector<float> buffer = x;
  std::vector<float> workspace(static_cast<size_t>(
      NewtonSchulzWorkspaceCount(shape().rows, shape().cols, Options())));
  NewtonSchulz(buffer, shape().rows, shape().cols, Options(), workspace,
               buffer);
  EXPECT_EQ(buffer, Orthogonalize(x, shape(), Options()));
}

TEST_P(VariantsTest, AlignmentOfBuffersChangesNoBit) {
  const std::vector<float> x = Input(2);
  const std::vector<float> expected = Orthogonalize(x, shape(), Options());
  const size_t workspace_count = static_cast<size_t>(
      NewtonSchulzWorkspaceCount(shape().rows, shape().cols, Options()));
  for (size_t offset = 0; offset < 17; ++offset) {
    std::vector<float> in(x.size() + offset, kNaN);
    std::copy(x.begin(), x.end(), in.begin() + static_cast<int64_t>(offset));
    std::vector<float> out(x.size() + 16 - offset % 16);
    std::vector<float> workspace(workspace_count + offset, kNaN);
    const std::span<float> result = std::span(out).last(x.size());
    NewtonSchulz(std::span<const float>(in).subspan(offset), shape().rows,
                 shape().cols, Options(), std::span(workspace).subspan(offset),
                 result);
    EXPECT_TRUE(std::equal(result.begin(), result.end(), expected.begin()))
        << offset;
  }
}

TEST_P(VariantsTest, ScaleOfTheInputDoesNotMatter) {
  MuonOptions options = Options();
  options.epsilon = 1e-300;
  const std::vector<float> x = Input(4);
  const std::vector<float> expected = Orthogonalize(x, shape(), options);
  // Powers of two change no mantissa: 2^-100 is about 1e-30, 2^50 about 1e15.
  for (const int exponent : {-100, -60, -1, 20, 50, 120}) {
    EXPECT_EQ(Orthogonalize(TimesPowerOfTwo(x, exponent), shape(), options),
              expected)
        << exponent;
  }
}

TEST_P(VariantsTest, TheTransposeGivesTheTranspose) {
  const auto transposed = [](const std::vector<float>& x, const Shape& shape) {
    std::vector<float> result;
    for (int64_t j = 0; j < shape.cols; ++j) {
      for (int64_t i = 0; i < shape.rows; ++i) {
        result.push_back(x[static_cast<size_t>(i * shape.cols + j)]);
      }
    }
    return result;
  };
  // Of a square matrix it is the rows that are taken for the shorter side.
  if (shape().rows == shape().cols) return;
  const std::vector<float> x = Input(3);
  EXPECT_EQ(Orthogonalize(transposed(x, shape()), {shape().cols, shape().rows},
                          Options()),
            transposed(Orthogonalize(x, shape(), Options()), shape()));
}

TEST_P(VariantsTest, ExtremeInputsUnderTheDefaultEpsilonAreFinite) {
  for (const float scale : {1e-45f, 1e-30f, 1e-7f, 1e15f, 1e38f}) {
    std::vector<float> x = Input(6);
    for (float& value : x) value *= scale;
    for (const float value : Orthogonalize(x, shape(), Options())) {
      ASSERT_TRUE(std::isfinite(value)) << scale;
      ASSERT_LT(std::abs(value), 1.4f) << scale;
    }
  }
}

TEST_P(VariantsTest, ZeroInZeroOut) {
  const std::vector<float> zero(
      static_cast<size_t>(shape().rows * shape().cols));
  EXPECT_EQ(Orthogonalize(zero, shape(), Options()), zero);
}

TEST_P(VariantsTest, NonFiniteInputIsNotHidden) {
  for (const float bad : {kNaN, std::numeric_limits<float>::infinity()}) {
    std::vector<float> x = Input(7);
    x.back() = bad;
    const std::vector<float> out = Orthogonalize(x, shape(), Options());
    EXPECT_TRUE(std::any_of(out.begin(), out.end(),
                            [](float value) { return std::isnan(value); }));
  }
}

TEST_P(VariantsTest, ResultsAreValuesOfTheType) {
  const DataType dtype = Options().newton_schulz_dtype;
  const std::vector<float> out = Orthogonalize(Input(8), shape(), Options());
  std::vector<std::byte> stored(out.size() * ByteWidth(dtype));
  std::vector<float> rounded(out.size());
  FromFloat(dtype, out, stored.data());
  ToFloat(dtype, stored.data(), rounded);
  EXPECT_EQ(out, rounded);
}

std::string VariantName(const ::testing::TestParamInfo<Variant>& info) {
  const auto& [shape, set, dtype, iteration] = info.param;
  return std::to_string(shape.rows) + "x" + std::to_string(shape.cols) + "_" +
         std::string(CoefficientSetOf(set).name) + "_" +
         std::string(DataTypeName(dtype)) + "_" +
         std::string(NewtonSchulzIterationName(iteration));
}

INSTANTIATE_TEST_SUITE_P(
    Variants, VariantsTest,
    ::testing::Combine(
        ::testing::Values(Shape{1, 1}, Shape{1, 37}, Shape{37, 1}, Shape{2, 3},
                          Shape{33, 100}, Shape{100, 33}, Shape{48, 48}),
        ::testing::Values(NewtonSchulzSet::kSimple, NewtonSchulzSet::kAol),
        ::testing::Values(DataType::kF64, DataType::kF32, DataType::kF16,
                          DataType::kBF16),
        ::testing::Values(NewtonSchulzIteration::kStandard,
                          NewtonSchulzIteration::kGram)),
    VariantName);

TEST(NewtonSchulzTest, DoublesOfAnyScaleAreSafe) {
  MuonOptions options;
  options.epsilon = std::numeric_limits<double>::denorm_min();
  const std::vector<double> x = RandomValues(6 * 10, 4);
  for (const DataType dtype :
       {DataType::kF64, DataType::kF32, DataType::kF16, DataType::kBF16}) {
    options.newton_schulz_dtype = dtype;
    const std::vector<double> expected = Orthogonalize(x, {6, 10}, options);
    for (const int exponent : {-900, -300, 300, 900, 1023}) {
      EXPECT_EQ(Orthogonalize(TimesPowerOfTwo(x, exponent), {6, 10}, options),
                expected)
          << DataTypeName(dtype) << " " << exponent;
    }
  }
}

TEST(NewtonSchulzTest, AnInputBelowEpsilonIsDividedByEpsilon) {
  std::vector<double> x = RandomValues(6 * 10, 5);
  for (double& value : x) value *= 1e-6;
  for (const NewtonSchulzSet set :
       {NewtonSchulzSet::kSimple, NewtonSchulzSet::kAol}) {
    MuonOptions options;
    options.coefficient_set = set;
    options.newton_schulz_dtype = DataType::kF64;
    options.epsilon = 1e-3;
    const std::vector<double> out = Orthogonalize(x, {6, 10}, options);
    EXPECT_LT(RelativeDifference(out, ReferenceNewtonSchulz(x, 6, 10, options)),
              1e-12);
    options.epsilon = 1e-7;
    EXPECT_GT(RelativeDifference(out, ReferenceNewtonSchulz(x, 6, 10, options)),
              0.1);
  }
}

TEST(NewtonSchulzTest, TheLastCoefficientsAreHeld) {
  const std::vector<float> x = RandomMatrix({5, 9}, 8);
  const NewtonSchulzCoefficients first = {3.4445, -4.7750, 2.0315};
  const NewtonSchulzCoefficients second = {2, -1.5, 0.5};
  for (const NewtonSchulzIteration iteration :
       {NewtonSchulzIteration::kStandard, NewtonSchulzIteration::kGram}) {
    const auto with = [&](std::vector<NewtonSchulzCoefficients> coefficients) {
      MuonOptions options = CustomOptions(std::move(coefficients));
      options.newton_schulz_steps = 4;
      options.iteration = iteration;
      return Orthogonalize(x, {5, 9}, options);
    };
    const std::vector<float> held = with({first, second});
    EXPECT_EQ(held, with({first, second, second, second}));
    EXPECT_NE(held, with({first, second, first, second}));
    EXPECT_NE(held, with({first}));
  }
}

TEST(NewtonSchulzTest, ANamedSetIsHeldToo) {
  const std::vector<float> x = RandomMatrix({5, 9}, 8);
  MuonOptions named;
  named.coefficient_set = NewtonSchulzSet::kQuintic;
  std::vector<NewtonSchulzCoefficients> steps = StepCoefficients(named);
  named.newton_schulz_steps = 7;
  steps.push_back(steps.back());
  steps.push_back(steps.back());
  EXPECT_EQ(Orthogonalize(x, {5, 9}, named),
            Orthogonalize(x, {5, 9}, CustomOptions(steps)));
}

TEST(NewtonSchulzTest, EachCoefficientActsOnItsPower) {
  // One step on the 1 x 1 matrix 1 is a + b + c; on 1/2, held by epsilon,
  // a/2 + b/8 + c/32. All are values of every type.
  for (const DataType dtype :
       {DataType::kF64, DataType::kF32, DataType::kF16, DataType::kBF16}) {
    for (const NewtonSchulzIteration iteration :
         {NewtonSchulzIteration::kStandard, NewtonSchulzIteration::kGram}) {
      MuonOptions options = CustomOptions({{2, -1.5, 0.25}});
      options.newton_schulz_dtype = dtype;
      options.iteration = iteration;
      EXPECT_EQ(Orthogonalize<float>({1}, {1, 1}, options)[0], 0.75f);
      options.epsilon = 2;
      EXPECT_EQ(Orthogonalize<float>({1}, {1, 1}, options)[0],
                1.0f - 1.5f / 8 + 0.25f / 32);
    }
  }
}

TEST(NewtonSchulzTest, EveryRestartIntervalGivesTheSameBesideRounding) {
  const std::vector<double> x = RandomValues(20 * 30, 9);
  MuonOptions options;
  options.newton_schulz_dtype = DataType::kF64;
  const std::vector<double> standard = Orthogonalize(x, {20, 30}, options);
  options.iteration = NewtonSchulzIteration::kGram;
  // Runs of one step are standard steps.
  options.gram_restart_interval = 1;
  EXPECT_EQ(Orthogonalize(x, {20, 30}, options), standard);
  std::vector<std::vector<double>> results = {standard};
  for (const int32_t interval : {2, 3, 4, 5}) {
    options.gram_restart_interval = interval;
    const std::vector<double> result = Orthogonalize(x, {20, 30}, options);
    EXPECT_LT(RelativeDifference(result, standard), 1e-12) << interval;
    EXPECT_EQ(std::count(results.begin(), results.end(), result), 0)
        << interval;
    results.push_back(result);
  }
  // No restart is left to put off.
  options.gram_restart_interval = 6;
  EXPECT_EQ(Orthogonalize(x, {20, 30}, options), results.back());
}

TEST(NewtonSchulzTest, TheSafetyFactorDividesBeforeEachPower) {
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kPolarExpress;
  options.newton_schulz_dtype = DataType::kF64;
  options.newton_schulz_steps = 1;
  for (const double factor : {1.0, 1.01, 1.25}) {
    options.polar_express_safety = factor;
    EXPECT_NEAR(Orthogonalize<double>({1}, {1, 1}, options)[0],
                8.28721201814563 / factor -
                    23.595886519098837 / std::pow(factor, 3) +
                    17.300387312530933 / std::pow(factor, 5),
                1e-13);
  }
}

TEST(NewtonSchulzTest, RepeatedCallsGiveTheSameBits) {
  const std::vector<float> x = RandomMatrix({96, 160}, 9);
  const std::vector<float> first = Orthogonalize(x, {96, 160}, {});
  for (int call = 0; call < 10; ++call) {
    EXPECT_EQ(Orthogonalize(x, {96, 160}, {}), first);
  }
}

TEST(NewtonSchulzTest, AnEmptyMatrixIsLeftAlone) {
  NewtonSchulz(std::span<const float>(), 0, 5, {}, {}, std::span<float>());
  NewtonSchulz(std::span<const double>(), 5, 0, {}, {}, std::span<double>());
}

}  // namespace
}  // namespace muonshard
