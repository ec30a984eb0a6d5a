#include "optimizer/compute/newton_schulz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "testing/known_spectra.h"
#include "testing/reference_optimizer.h"

namespace muonshard {
namespace {

using testing::LinearSpectrum;
using testing::LogSpectrum;
using testing::RandomValues;
using testing::RankSpectrum;
using testing::ReferenceNewtonSchulz;
using testing::RelativeDifference;
using testing::SingularVectors;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> ToFloats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

std::vector<double> ToDoubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// The workspace is full of NaN before, which must not be seen.
std::vector<float> Orthogonalize(const std::vector<float>& x, int64_t rows,
                                 int64_t cols, const MuonOptions& options) {
  std::vector<float> workspace(
      static_cast<size_t>(NewtonSchulzWorkspaceCount(rows, cols, options)),
      kNaN);
  std::vector<float> out(x.size(), kNaN);
  NewtonSchulz(x, rows, cols, options, workspace, out);
  return out;
}

std::vector<float> RandomMatrix(int64_t rows, int64_t cols, uint64_t seed) {
  return ToFloats(RandomValues(rows * cols, seed));
}

// u (a_1 ... a_T) sqrt(m) / |reference|: each step multiplies what rounding has
// left in small singular values by at most its a.
double AmplificationBound(const std::vector<double>& reference, int64_t m,
                          const MuonOptions& options) {
  double bound = std::ldexp(1.0, -24);
  for (const NewtonSchulzCoefficients& step : StepCoefficients(options)) {
    bound *= step.a;
  }
  double squares = 0;
  for (const double value : reference) squares += value * value;
  return bound * std::sqrt(static_cast<double>(m)) / std::sqrt(squares);
}

struct Shape {
  int64_t rows;
  int64_t cols;
};

std::string ShapeName(const ::testing::TestParamInfo<Shape>& info) {
  return std::to_string(info.param.rows) + "x" +
         std::to_string(info.param.cols);
}

class ShapesTest : public ::testing::TestWithParam<Shape> {
 protected:
  int64_t rows() const { return GetParam().rows; }
  int64_t cols() const { return GetParam().cols; }
  int64_t m() const { return std::min(rows(), cols()); }

  // Relative to the fp64 iteration of the same rounded input.
  void CheckSpectrum(const std::vector<double>& values, double bound,
                     const MuonOptions& options) {
    const std::vector<float> x =
        ToFloats(SingularVectors(rows(), cols(), 11).Compose(values));
    const std::vector<double> reference =
        ReferenceNewtonSchulz(ToDoubles(x), rows(), cols(), options);
    if (bound == 0) bound = AmplificationBound(reference, m(), options);
    EXPECT_LT(
        RelativeDifference(ToDoubles(Orthogonalize(x, rows(), cols(), options)),
                           reference),
        bound);
  }
};

TEST_P(ShapesTest, EvenSpectraComeWithinTheFixedBound) {
  CheckSpectrum(LinearSpectrum(m(), 0.01), 5e-5, {});
  CheckSpectrum(LogSpectrum(m(), 1e-3), 5e-5, {});
}

TEST_P(ShapesTest, HardSpectraComeWithinTheirAmplification) {
  CheckSpectrum(LogSpectrum(m(), 1e-9), 0, {});
  CheckSpectrum(RankSpectrum(m(), (m() + 1) / 2), 0, {});
  CheckSpectrum(RankSpectrum(m(), 1), 0, {});
  std::vector<double> outlier(static_cast<size_t>(m()), 1e-3);
  outlier[0] = 1;
  CheckSpectrum(outlier, 0, {});
}

TEST_P(ShapesTest, InPlaceEqualsOutOfPlace) {
  const std::vector<float> x = RandomMatrix(rows(), cols(), 1);
  const std::vector<float> expected = Orthogonalize(x, rows(), cols(), {});
  std::vector<float> buffer = x;
  std::vector<float> workspace(
      static_cast<size_t>(NewtonSchulzWorkspaceCount(rows(), cols(), {})));
  NewtonSchulz(buffer, rows(), cols(), {}, workspace, buffer);
  EXPECT_EQ(buffer, expected);
}

TEST_P(ShapesTest, AlignmentOfBuffersChangesNoBit) {
  const std::vector<float> x = RandomMatrix(rows(), cols(), 2);
  const std::vector<float> expected = Orthogonalize(x, rows(), cols(), {});
  const size_t workspace_count =
      static_cast<size_t>(NewtonSchulzWorkspaceCount(rows(), cols(), {}));
  for (size_t offset = 0; offset < 17; ++offset) {
    std::vector<float> in(x.size() + offset, kNaN);
    std::copy(x.begin(), x.end(), in.begin() + static_cast<int64_t>(offset));
    std::vector<float> out(x.size() + 16 - offset % 16);
    std::vector<float> workspace(workspace_count + offset, kNaN);
    const std::span<float> result = std::span(out).last(x.size());
    NewtonSchulz(std::span(in).subspan(offset), rows(), cols(), {},
                 std::span(workspace).subspan(offset), result);
    EXPECT_TRUE(std::equal(result.begin(), result.end(), expected.begin()))
        << offset;
  }
}

TEST_P(ShapesTest, ScaleOfTheInputDoesNotMatter) {
  MuonOptions options;
  options.epsilon = 1e-300;
  const std::vector<float> x = RandomMatrix(rows(), cols(), 4);
  const std::vector<float> expected = Orthogonalize(x, rows(), cols(), options);
  // Powers of two change no mantissa: 2^-100 is about 1e-30, 2^50 about 1e15.
  for (const int exponent : {-100, -60, -1, 20, 50, 120}) {
    std::vector<float> scaled = x;
    for (float& value : scaled) value = std::ldexp(value, exponent);
    EXPECT_EQ(Orthogonalize(scaled, rows(), cols(), options), expected)
        << exponent;
  }
}

TEST_P(ShapesTest, ZeroInZeroOut) {
  const std::vector<float> zero(static_cast<size_t>(rows() * cols()));
  EXPECT_EQ(Orthogonalize(zero, rows(), cols(), {}), zero);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ShapesTest,
                         ::testing::Values(Shape{1, 1}, Shape{1, 37},
                                           Shape{37, 1}, Shape{2, 3},
                                           Shape{64, 64}, Shape{33, 100},
                                           Shape{100, 33}, Shape{48, 49}),
                         ShapeName);

std::vector<float> Transposed(const std::vector<float>& x, int64_t rows) {
  const int64_t cols = static_cast<int64_t>(x.size()) / rows;
  std::vector<float> result;
  for (int64_t j = 0; j < cols; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      result.push_back(x[static_cast<size_t>(i * cols + j)]);
    }
  }
  return result;
}

TEST(NewtonSchulzTest, TheTransposeGivesTheTranspose) {
  for (const auto& [rows, cols] :
       {Shape{1, 37}, Shape{2, 3}, Shape{33, 100}, Shape{48, 49}}) {
    const std::vector<float> x = RandomMatrix(rows, cols, 3);
    EXPECT_EQ(Orthogonalize(Transposed(x, rows), cols, rows, {}),
              Transposed(Orthogonalize(x, rows, cols, {}), rows))
        << rows << "x" << cols;
  }
}

TEST(NewtonSchulzTest, AnInputBelowEpsilonIsDividedByEpsilon) {
  MuonOptions options;
  options.epsilon = 1e-3;
  std::vector<float> x = RandomMatrix(6, 10, 5);
  for (float& value : x) value *= 1e-6f;
  const std::vector<double> reference =
      ReferenceNewtonSchulz(ToDoubles(x), 6, 10, options);
  EXPECT_LT(RelativeDifference(ToDoubles(Orthogonalize(x, 6, 10, options)),
                               reference),
            AmplificationBound(reference, 6, options));
}

TEST(NewtonSchulzTest, ExtremeInputsUnderTheDefaultEpsilonAreFinite) {
  for (const float scale : {1e-45f, 1e-30f, 1e15f, 1e38f}) {
    std::vector<float> x = RandomMatrix(8, 20, 6);
    for (float& value : x) value *= scale;
    for (const float value : Orthogonalize(x, 8, 20, {})) {
      ASSERT_TRUE(std::isfinite(value)) << scale;
      ASSERT_LT(std::abs(value), 1.4f) << scale;
    }
  }
}

TEST(NewtonSchulzTest, NonFiniteInputIsNotHidden) {
  std::vector<float> x = RandomMatrix(4, 4, 7);
  x[5] = kNaN;
  const std::vector<float> out = Orthogonalize(x, 4, 4, {});
  EXPECT_TRUE(std::isnan(out[0]));
}

TEST(NewtonSchulzTest, TheLastCoefficientsAreHeld) {
  const std::vector<float> x = RandomMatrix(5, 9, 8);
  const NewtonSchulzCoefficients first = {3.4445, -4.7750, 2.0315};
  const NewtonSchulzCoefficients second = {2, -1.5, 0.5};
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kCustom;
  options.newton_schulz_steps = 4;
  const auto with = [&](std::vector<NewtonSchulzCoefficients> coefficients) {
    options.custom_coefficients = std::move(coefficients);
    return Orthogonalize(x, 5, 9, options);
  };
  const std::vector<float> held = with({first, second});
  EXPECT_EQ(held, with({first, second, second, second}));
  EXPECT_NE(held, with({first, second, first, second}));
  EXPECT_NE(held, with({first}));
}

TEST(NewtonSchulzTest, EachCoefficientActsOnItsPower) {
  // One step on the 1 x 1 matrix 1 is a + b + c; on 1/2, held by epsilon,
  // a/2 + b/8 + c/32.
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kCustom;
  options.custom_coefficients = {{2, -1.5, 0.25}};
  EXPECT_EQ(Orthogonalize({1}, 1, 1, options)[0], 0.75f);
  options.epsilon = 2;
  EXPECT_EQ(Orthogonalize({1}, 1, 1, options)[0], 1.0f - 1.5f / 8 + 0.25f / 32);
}

TEST(NewtonSchulzTest, RepeatedCallsGiveTheSameBits) {
  const std::vector<float> x = RandomMatrix(96, 160, 9);
  const std::vector<float> first = Orthogonalize(x, 96, 160, {});
  for (int call = 0; call < 10; ++call) {
    EXPECT_EQ(Orthogonalize(x, 96, 160, {}), first);
  }
}

TEST(NewtonSchulzTest, AnEmptyMatrixIsLeftAlone) {
  NewtonSchulz({}, 0, 5, {}, {}, {});
  NewtonSchulz({}, 5, 0, {}, {}, {});
}

TEST(NewtonSchulzFlopsTest, CountsThreeProductsAStep) {
  // [2, 3]: 2*2*2*3 for X X', 2*2*2*2 for A A, 2*2*2*3 for the last.
  MuonOptions options;
  options.newton_schulz_steps = 1;
  EXPECT_EQ(NewtonSchulzFlops(2, 3, options), 24 + 16 + 24);
  EXPECT_EQ(NewtonSchulzFlops(3, 2, {}), 5 * (24 + 16 + 24));
}

}  // namespace
}  // namespace muonshard
