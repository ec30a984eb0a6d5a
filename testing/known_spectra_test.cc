#include "testing/known_spectra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace muonshard::testing {
namespace {

using ::testing::ElementsAre;

TEST(KnownSpectraTest, SpectraAreWhatTheirNamesSay) {
  EXPECT_THAT(LinearSpectrum(3, 0.5), ElementsAre(1, 0.75, 0.5));
  EXPECT_THAT(LogSpectrum(3, 0.25), ElementsAre(1, 0.5, 0.25));
  EXPECT_THAT(RankSpectrum(3, 1), ElementsAre(1, 0, 0));
  EXPECT_THAT(OutlierSpectrum(3, 0.125), ElementsAre(1, 0.125, 0.125));
  EXPECT_THAT(OutlierSpectrum(1, 0.125), ElementsAre(1));
}

TEST(SpectralNormBoundTest, IsTightOnKnownSpectra) {
  for (const auto& [rows, cols] :
       {std::pair{8, 8}, {5, 20}, {20, 5}, {1, 9}, {9, 1}}) {
    const int64_t side = std::min(rows, cols);
    std::vector<double> values = LogSpectrum(side, 1e-3);
    for (double& value : values) value *= 3;
    const std::vector<double> x =
        SingularVectors(rows, cols, 3).Compose(values);
    const double bound = SpectralNormBound(x, rows, cols);
    EXPECT_GE(bound, 3 * (1 - 1e-14));
    EXPECT_LE(bound, 3 * std::pow(side, 1.0 / 512) * (1 + 1e-14));
  }
}

TEST(SpectralNormBoundTest, SeesZeroAndWhatIsNotFinite) {
  EXPECT_EQ(SpectralNormBound({0, 0, 0, 0, 0, 0}, 2, 3), 0);
  EXPECT_TRUE(std::isnan(SpectralNormBound(
      {1, std::numeric_limits<double>::quiet_NaN(), 0, 1}, 2, 2)));
}

TEST(WalshTest, RowsOfGramMatricesArePermutationsOfOneAnother) {
  const std::vector<double> values = {1, 0.5, 0.25, 0.125};
  const std::vector<double> x = SingularVectors::Walsh(4, 7, 2).Compose(values);
  const auto gram = [&x](size_t i, size_t j) {
    double sum = 0;
    for (size_t k = 0; k < 7; ++k) sum += x[i * 7 + k] * x[j * 7 + k];
    return sum;
  };
  double trace = 0;
  for (size_t i = 0; i < 4; ++i) {
    trace += gram(i, i);
    for (size_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(gram(i, j), gram(0, i ^ j), 1e-15);
    }
  }
  EXPECT_NEAR(trace, 1 + 0.25 + 0.0625 + 0.015625, 1e-14);
}

}  // namespace
}  // namespace muonshard::testing
