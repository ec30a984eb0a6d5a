#include "optimizer/compute/row_normalization.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "testing/unit_roundoff.h"

namespace muonshard {
namespace {

using testing::kF32Roundoff;

// Rows and columns of very different sizes, some of them zero.
std::vector<float> Uneven(int64_t rows, int64_t cols) {
  std::vector<float> matrix;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      const double size = i == 2 || j == 3 ? 0 : std::pow(10.0, i % 3 - j % 2);
      matrix.push_back(static_cast<float>(
          size * std::sin(static_cast<double>(1 + i * cols + j))));
    }
  }
  return matrix;
}

double Norm(const std::vector<float>& matrix) {
  double squares = 0;
  for (const float value : matrix) squares += double{value} * double{value};
  return std::sqrt(squares);
}

std::vector<float> Transposed(const std::vector<float>& matrix, int64_t rows,
                              int64_t cols) {
  std::vector<float> result(matrix.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      result[static_cast<size_t>(j * rows + i)] =
          matrix[static_cast<size_t>(i * cols + j)];
    }
  }
  return result;
}

// The header's formulas, row by row, in fp64.
void CheckAgainstFormula(int64_t rows, int64_t cols, double beta2,
                         double epsilon) {
  std::vector<float> matrix = Uneven(rows, cols);
  const std::vector<float> before = matrix;
  std::vector<float> moments;
  for (int64_t i = 0; i < rows; ++i) {
    moments.push_back(0.25f * static_cast<float>(i % 4));
  }
  const std::vector<float> old_moments = moments;
  NormalizeRows({.matrix = matrix, .rows = rows, .cols = cols}, beta2, epsilon,
                moments);

  std::vector<double> divided;
  double squares = 0;
  for (int64_t i = 0; i < rows; ++i) {
    double mean = 0;
    for (int64_t j = 0; j < cols; ++j) {
      const double value = double{before[static_cast<size_t>(i * cols + j)]};
      mean += value * value / static_cast<double>(cols);
    }
    const double moment = beta2 * double{old_moments[static_cast<size_t>(i)]} +
                          (1 - beta2) * mean;
    EXPECT_NEAR(double{moments[static_cast<size_t>(i)]}, moment,
                2 * kF32Roundoff * moment);
    for (int64_t j = 0; j < cols; ++j) {
      divided.push_back(double{before[static_cast<size_t>(i * cols + j)]} /
                        (std::sqrt(moment) + epsilon));
      squares += divided.back() * divided.back();
    }
  }
  const double ratio = Norm(before) / std::sqrt(squares);
  for (size_t i = 0; i < matrix.size(); ++i) {
    // The moment, the factor and the product are rounded once each.
    const double want = divided[i] * ratio;
    EXPECT_NEAR(double{matrix[i]}, want, 4 * kF32Roundoff * std::abs(want))
        << i;
  }
}

TEST(RowNormalizationTest, FollowsItsFormula) {
  CheckAgainstFormula(5, 7, 0.95, 1e-7);
  CheckAgainstFormula(5, 7, 0, 1e-7);
  CheckAgainstFormula(5, 7, 0.5, 0.75);
  CheckAgainstFormula(300, 4, 0.95, 1e-7);
  CheckAgainstFormula(1, 1, 0.95, 1e-7);
}

TEST(RowNormalizationTest, AFirstStepMakesRowsOfOneSize) {
  std::vector<float> matrix = {3, 4, 30, 40};
  std::vector<float> moments = {0, 0};
  NormalizeRows({.matrix = matrix, .rows = 2, .cols = 2}, 0.9, 1e-30, moments);
  // Both rows point where they did, with half of the squared norm 2525 each.
  const double size = std::sqrt(2525.0 / 2);
  for (size_t i = 0; i < 4; ++i) {
    const double want = size * (i % 2 == 0 ? 0.6 : 0.8);
    EXPECT_NEAR(double{matrix[i]}, want, 4 * kF32Roundoff * want);
  }
}

TEST(RowNormalizationTest, TheNormIsKept) {
  std::vector<float> matrix = Uneven(40, 30);
  const double before = Norm(matrix);
  std::vector<float> moments(40, 0.0f);
  for (int step = 0; step < 3; ++step) {
    NormalizeRows({.matrix = matrix, .rows = 40, .cols = 30}, 0.95, 1e-7,
                  moments);
  }
  EXPECT_NEAR(Norm(matrix), before, 3 * 4 * kF32Roundoff * before);
}

TEST(RowNormalizationTest, NeuronsAreColumnsWhereFanOutIsDimensionOne) {
  for (const auto& [rows, cols] :
       {std::pair<int64_t, int64_t>{6, 9}, {3, 300}, {300, 3}}) {
    std::vector<float> matrix = Uneven(rows, cols);
    std::vector<float> transposed = Transposed(matrix, rows, cols);
    std::vector<float> moments(static_cast<size_t>(cols), 0.5f);
    std::vector<float> moments_of_rows = moments;
    NormalizeRows(
        {.matrix = matrix, .rows = rows, .cols = cols, .fan_out_dimension = 1},
        0.9, 1e-7, moments);
    NormalizeRows({.matrix = transposed, .rows = cols, .cols = rows}, 0.9, 1e-7,
                  moments_of_rows);
    EXPECT_EQ(Transposed(matrix, rows, cols), transposed);
    EXPECT_EQ(moments, moments_of_rows);
  }
}

TEST(RowNormalizationTest, ANeuronOfZerosStaysZeroForAnyEpsilon) {
  for (const double epsilon : {1e-300, 1e-100, 1e-41, 1e-7}) {
    std::vector<float> matrix = {3, 4, 0, 0};
    std::vector<float> moments = {0, 0};
    NormalizeRows({.matrix = matrix, .rows = 2, .cols = 2}, 0.95, epsilon,
                  moments);
    EXPECT_NEAR(Norm(matrix), 5, 5 * 4 * kF32Roundoff) << epsilon;
    EXPECT_EQ(matrix[2], 0) << epsilon;
    EXPECT_EQ(matrix[3], 0) << epsilon;
  }
}

TEST(RowNormalizationTest, ZeroInGivesZeroOut) {
  std::vector<float> matrix(12, 0.0f);
  std::vector<float> moments = {0, 4, 0};
  NormalizeRows({.matrix = matrix, .rows = 3, .cols = 4}, 0.5, 1e-7, moments);
  EXPECT_EQ(matrix, std::vector<float>(12, 0.0f));
  EXPECT_EQ(moments, (std::vector<float>{0, 2, 0}));
}

}  // namespace
}  // namespace muonshard
