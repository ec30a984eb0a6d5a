#include "optimizer/compute/gradient_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "optimizer/compute/convert.h"

namespace muonshard {
namespace {

std::vector<float> Gradients(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(std::sin(static_cast<double>(i) + 1));
  }
  return values;
}

std::vector<std::byte> As(DataType type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * ByteWidth(type));
  FromFloat(type, values, bytes.data());
  return bytes;
}

TEST(AddSquaresTest, ARunCutAtChunkEdgesHasTheSameBits) {
  for (const DataType type :
       {DataType::kF32, DataType::kBF16, DataType::kF16}) {
    const std::vector<std::byte> bytes = As(type, Gradients(1000));
    ExactSum whole;
    EXPECT_EQ(AddSquares(type, bytes.data(), 1000, whole), 0);
    ExactSum cut;
    int64_t start = 0;
    for (const int64_t end : {128, 128, 640, 1000}) {
      AddSquares(type,
                 bytes.data() + static_cast<size_t>(start) * ByteWidth(type),
                 end - start, cut);
      start = end;
    }
    EXPECT_EQ(whole.Value(), cut.Value());
    double expected = 0;
    std::vector<float> values(1000);
    ToFloat(type, bytes.data(), values);
    for (const float value : values) expected += double{value} * double{value};
    // 1000 additions of fp64, each off by at most 2^-53 of the sum.
    EXPECT_NEAR(whole.Value(), expected, expected * 1000 * std::ldexp(1, -53));
  }
}

TEST(AddSquaresTest, NonFiniteGradientsAreCountedAndLeftOut) {
  std::vector<float> values(400, 1.0f);
  values[5] = std::numeric_limits<float>::infinity();
  values[6] = std::numeric_limits<float>::quiet_NaN();
  values[390] = -std::numeric_limits<float>::infinity();
  ExactSum squares;
  EXPECT_EQ(AddSquares(DataType::kF32, values.data(), 400, squares), 3);
  // Chunks 1 and 2 of four.
  EXPECT_EQ(squares.Value(), 256);
}

TEST(GlobalNormTest, IsTheRootOfTheSum) {
  const float values[] = {3, 4};
  ExactSum squares;
  AddSquares(DataType::kF32, values, 2, squares);
  EXPECT_EQ(GlobalNorm(squares), 5);
  EXPECT_EQ(GlobalNorm(ExactSum()), 0);
}

TEST(GlobalNormTest, IsDividedByTheLossScaleAfterTheRoot) {
  const float values[] = {3, 4};
  ExactSum squares;
  AddSquares(DataType::kF32, values, 2, squares);
  EXPECT_EQ(GlobalNorm(squares, 4), 1.25);
  EXPECT_EQ(GlobalNorm(squares, 3), 5.0 / 3);
}

TEST(GlobalNormTest, APowerOfTwoInAndOutIsExact) {
  std::vector<float> values = Gradients(1000);
  ExactSum plain;
  AddSquares(DataType::kF32, values.data(), 1000, plain);
  for (const int exponent : {-60, 7, 120}) {
    std::vector<float> scaled = values;
    for (float& value : scaled) value = std::ldexp(value, exponent);
    ExactSum squares;
    AddSquares(DataType::kF32, scaled.data(), 1000, squares);
    EXPECT_EQ(GlobalNorm(squares, std::ldexp(1.0, exponent)),
              GlobalNorm(plain));
  }
}

TEST(GradientFactorTest, IsTheClipFactorOverTheLossScale) {
  EXPECT_EQ(GradientFactor(0.75, 1), 0.75);
  EXPECT_EQ(GradientFactor(0.75, 3), 0.25);
}

TEST(GradientFactorFitsTest, ScalesBelowOneMustNotMakeGradientsInfinite) {
  EXPECT_TRUE(GradientFactorFits(1e39, 1, 65536));
  EXPECT_TRUE(GradientFactorFits(1e38, 1, 0.5));
  EXPECT_FALSE(GradientFactorFits(1e39, 1, 0.5));
  EXPECT_FALSE(GradientFactorFits(1e39, 0.75, 0.5));
  // The clip brings it back.
  EXPECT_TRUE(GradientFactorFits(1e39, 0.01, 1e-6));
  EXPECT_TRUE(GradientFactorFits(1e39, 0.5, 0.5));
}

TEST(GradientFactorFitsTest, HugeScalesMustNotMakeTheFactorZero) {
  const double largest = std::numeric_limits<float>::max();
  EXPECT_TRUE(GradientFactorFits(1, 1, largest));
  EXPECT_TRUE(GradientFactorFits(1, 0x1p-9, 0x1p120));
  EXPECT_FALSE(GradientFactorFits(1, 0x1p-10, 0x1p120));
  EXPECT_FALSE(GradientFactorFits(1, 0, 2));
}

TEST(GradientFactorFitsTest, WithoutAScaleAnyFactorDoes) {
  EXPECT_TRUE(GradientFactorFits(1e39, 1, 1));
  EXPECT_TRUE(GradientFactorFits(1e39, 1e-60, 1));
}

TEST(ClipFactorTest, ScalesDownToTheLimitAndNeverUp) {
  EXPECT_EQ(ClipFactor(10, 0), 1);
  EXPECT_EQ(ClipFactor(1, 2), 1);
  EXPECT_EQ(ClipFactor(0, 1), 1);
  EXPECT_DOUBLE_EQ(ClipFactor(10, 5), 5 / (10 + 1e-6));
}

}  // namespace
}  // namespace muonshard
