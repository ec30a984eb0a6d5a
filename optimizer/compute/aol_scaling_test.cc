// The pre-scaling kAol, seen through an iteration that does nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "collectives/data_type.h"
#include "optimizer/compute/newton_schulz.h"
#include "optimizer/muon_options.h"
#include "testing/known_spectra.h"

namespace muonshard {
namespace {

using testing::OutlierSpectrum;
using testing::RandomValues;
using testing::SingularVectors;
using testing::SpectralNormBound;

MuonOptions ScaleOnly() {
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kCustom;
  options.custom_coefficients = {{1, 0, 0}};
  options.pre_scaling = PreScaling::kAol;
  options.newton_schulz_dtype = DataType::kF64;
  return options;
}

std::vector<double> Iterate(const std::vector<double>& x, int64_t rows,
                            int64_t cols, const MuonOptions& options) {
  std::vector<float> workspace(
      static_cast<size_t>(NewtonSchulzWorkspaceCount(rows, cols, options)));
  std::vector<double> out(x.size());
  NewtonSchulz(x, rows, cols, options, workspace, out);
  return out;
}

TEST(AolScalingTest, ARowIsDividedByTheRootOfItsRowOfTheGramMatrix) {
  // Rows (3, 0, 4) and (1, 0, -2): products 25, -5 and 5, so that the rows'
  // sums of magnitudes are 30 and 10.
  const std::vector<double> out =
      Iterate({3, 0, 4, 1, 0, -2}, 2, 3, ScaleOnly());
  const double first = 0.85 / std::sqrt(30.0);
  const double second = 0.85 / std::sqrt(10.0);
  const double expected[] = {3 * first, 0, 4 * first, second, 0, -2 * second};
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_NEAR(out[i], expected[i], 1e-15) << i;
  }
}

TEST(AolScalingTest, ColumnsAreScaledWhenTheyAreFewer) {
  const std::vector<double> out =
      Iterate({3, 1, 0, 0, 4, -2}, 3, 2, ScaleOnly());
  EXPECT_NEAR(out[0], 3 * 0.85 / std::sqrt(30.0), 1e-15);
  EXPECT_NEAR(out[5], -2 * 0.85 / std::sqrt(10.0), 1e-15);
}

TEST(AolScalingTest, SingularValuesStayWithinTheBound) {
  const double bound = kAolSpectralNormMax * std::pow(24, 1.0 / 512);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    // Rows of very unlike sizes.
    std::vector<double> x = RandomValues(24 * 40, seed);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] *= std::pow(10.0, static_cast<double>(i / 40 % 7) - 3);
    }
    EXPECT_LE(SpectralNormBound(Iterate(x, 24, 40, ScaleOnly()), 24, 40),
              bound);
  }
}

TEST(AolScalingTest, RankOneReachesTheBound) {
  const std::vector<double> u = RandomValues(9, 1);
  const std::vector<double> v = RandomValues(14, 2);
  std::vector<double> x;
  for (const double left : u) {
    for (const double right : v) x.push_back(left * right);
  }
  const std::vector<double> out = Iterate(x, 9, 14, ScaleOnly());
  const double norm =
      std::sqrt(std::inner_product(out.begin(), out.end(), out.begin(), 0.0));
  EXPECT_NEAR(norm, kAolSpectralNormMax, 1e-14);
}

TEST(AolScalingTest, TheSetNeverTurnsAMainDirectionAround) {
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kAol;
  for (const DataType dtype :
       {DataType::kF64, DataType::kF32, DataType::kF16, DataType::kBF16}) {
    options.newton_schulz_dtype = dtype;
    for (const double rest : {0.0, 1e-6, 1e-2}) {
      for (uint64_t seed = 1; seed < 6; ++seed) {
        const SingularVectors vectors(24, 40, seed);
        const std::vector<double> main =
            vectors.Compose(OutlierSpectrum(24, 0));
        const std::vector<double> out = Iterate(
            vectors.Compose(OutlierSpectrum(24, rest)), 24, 40, options);
        EXPECT_GT(std::inner_product(out.begin(), out.end(), main.begin(), 0.0),
                  0.5)
            << DataTypeName(dtype) << " " << rest;
      }
    }
  }
}

TEST(AolScalingTest, RowsBelowEpsilonAreDividedByEpsilon) {
  MuonOptions options = ScaleOnly();
  options.epsilon = 1;
  // The first row's root of its sum of magnitudes is 2, the second's is 1/4.
  const std::vector<double> out = Iterate({2, 0, 0, 0.25}, 2, 2, options);
  EXPECT_NEAR(out[0], 0.85, 1e-15);
  EXPECT_NEAR(out[3], 0.85 * 0.25, 1e-15);
}

TEST(AolScalingTest, RowsOfZeroStayZero) {
  for (const DataType dtype : {DataType::kF64, DataType::kF32}) {
    MuonOptions options = ScaleOnly();
    options.newton_schulz_dtype = dtype;
    options.epsilon = 1e-300;
    const std::vector<double> out = Iterate({0, 0, 0, 1, 2, 2}, 2, 3, options);
    EXPECT_EQ(out[0], 0);
    EXPECT_EQ(out[1], 0);
    EXPECT_EQ(out[2], 0);
    EXPECT_NEAR(out[3], 0.85 / 3, 1e-7);
  }
}

TEST(AolScalingTest, RowsOfNextToNothingDoNotOverflow) {
  // In f32, the square of the second row vanishes beside the first.
  MuonOptions options = ScaleOnly();
  options.newton_schulz_dtype = DataType::kF32;
  options.epsilon = 1e-300;
  const std::vector<double> out = Iterate({1, 0, 0, 1e-30}, 2, 2, options);
  EXPECT_NEAR(out[0], 0.85, 1e-7);
  EXPECT_NEAR(out[3], 0.85e-30 * std::pow(2, 60), 1e-18);
}

}  // namespace
}  // namespace muonshard
