#include "testing/conformance/canonical_reduction.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace muonshard::testing {
namespace {

template <typename T>
Elements One(DataType type, T value) {
  Elements elements(type, 1);
  std::memcpy(elements.out().data, &value, sizeof(T));
  return elements;
}

template <typename T>
std::vector<Elements> Each(DataType type, std::initializer_list<T> values) {
  std::vector<Elements> contributions;
  for (const T value : values) contributions.push_back(One(type, value));
  return contributions;
}

TEST(CanonicalReductionTest, FoldsFromTheLeft) {
  const auto terms = Each<float>(DataType::kF32, {0x1p24F, 1, -0x1p24F});
  EXPECT_TRUE(HasBitsOf(CanonicalReduction(terms, Reduction::Sum()),
                        One<float>(DataType::kF32, 0)));
  const auto other = Each<float>(DataType::kF32, {0x1p24F, -0x1p24F, 1});
  EXPECT_TRUE(HasBitsOf(CanonicalReduction(other, Reduction::Sum()),
                        One<float>(DataType::kF32, 1)));
}

// 256 + 1 is no bf16; folded in bf16 each 1 would be lost.
TEST(CanonicalReductionTest, FoldsBF16InFloat) {
  const auto terms = Each<uint16_t>(DataType::kBF16, {0x4380, 0x3F80, 0x3F80});
  EXPECT_TRUE(HasBitsOf(CanonicalReduction(terms, Reduction::Sum()),
                        One<uint16_t>(DataType::kBF16, 0x4381)));
}

TEST(CanonicalReductionTest, ScalesOnceAtTheEnd) {
  const auto terms = Each<float>(DataType::kF32, {1, 3, 8});
  EXPECT_TRUE(HasBitsOf(CanonicalReduction(terms, Reduction::Average()),
                        One<float>(DataType::kF32, 12 * (1.0F / 3))));
  EXPECT_TRUE(HasBitsOf(CanonicalReduction(terms, Reduction::ScaledSum(0.25)),
                        One<float>(DataType::kF32, 3)));
}

TEST(CanonicalReductionTest, TakesTheLeastAndTheGreatest) {
  const auto terms = Each<int64_t>(DataType::kI64, {4, -9, 7});
  EXPECT_TRUE(HasBitsOf(CanonicalReduction(terms, Reduction::Min()),
                        One<int64_t>(DataType::kI64, -9)));
  EXPECT_TRUE(HasBitsOf(CanonicalReduction(terms, Reduction::Max()),
                        One<int64_t>(DataType::kI64, 7)));
}

// From the left, 2^24 swallows each 1; the second host keeps its own.
TEST(CanonicalReductionTest, AHierarchyFoldsLanesAndThenHosts) {
  const auto terms = Each<float>(DataType::kF32, {0x1p24F, 1, 1, -0x1p24F});
  EXPECT_TRUE(HasBitsOf(CanonicalReduction(terms, Reduction::Sum(), 1),
                        One<float>(DataType::kF32, 0)));
  EXPECT_TRUE(HasBitsOf(CanonicalReduction(terms, Reduction::Sum(), 2),
                        One<float>(DataType::kF32, 1)));
}

// 2048 + 1 is no f16: rounded by the host, the 1 is lost to the next level.
TEST(CanonicalReductionTest, AHierarchyRoundsOncePerLevel) {
  constexpr uint16_t k1 = 0x3C00;
  constexpr uint16_t k2048 = 0x6800;
  constexpr uint16_t k2050 = 0x6801;
  const auto terms = Each<uint16_t>(DataType::kF16, {k2048, k1, k1, 0});
  EXPECT_TRUE(HasBitsOf(CanonicalReduction(terms, Reduction::Sum(), 1),
                        One(DataType::kF16, k2050)));
  EXPECT_TRUE(HasBitsOf(CanonicalReduction(terms, Reduction::Sum(), 2),
                        One(DataType::kF16, k2048)));
}

// (1 + 2) / 2 + (4 + 8) / 2 is exact, and so is a quarter of twice that. The
// sums of hosts of the largest f16 are infinite, and their means are not.
TEST(CanonicalReductionTest, In16BitsEachLevelOfAHierarchyIsAMean) {
  constexpr uint16_t k1 = 0x3C00;
  constexpr uint16_t k2 = 0x4000;
  constexpr uint16_t k4 = 0x4400;
  constexpr uint16_t k8 = 0x4800;
  constexpr uint16_t k3_75 = 0x4380;
  const auto terms = Each<uint16_t>(DataType::kF16, {k1, k2, k4, k8});
  EXPECT_TRUE(HasBitsOf(CanonicalReduction(terms, Reduction::Average(), 2),
                        One(DataType::kF16, k3_75)));
  constexpr uint16_t kLargest = 0x7BFF;
  const auto large =
      Each<uint16_t>(DataType::kF16, {kLargest, kLargest, kLargest, kLargest});
  for (const Reduction& mean :
       {Reduction::Average(), Reduction::ScaledSum(0.25)}) {
    EXPECT_TRUE(HasBitsOf(CanonicalReduction(large, mean, 2),
                          One(DataType::kF16, kLargest)));
  }
}

TEST(CanonicalReductionTest, AnotherOrderIsNearAndAWrongTermIsNot) {
  const auto terms = Each<float>(DataType::kF32, {0x1p24F, 1, -0x1p24F});
  for (const float other_order : {0.0F, 1.0F, 2.0F}) {
    EXPECT_TRUE(IsWithinOneRoundingPerHop(One(DataType::kF32, other_order),
                                          terms, Reduction::Sum()));
  }
  const auto near_one = Each<float>(DataType::kF32, {0.5F, 0.25F, 0.25F});
  EXPECT_FALSE(IsWithinOneRoundingPerHop(One(DataType::kF32, 1.00001F),
                                         near_one, Reduction::Sum()));
  EXPECT_FALSE(IsWithinOneRoundingPerHop(
      One(DataType::kF32, std::numeric_limits<float>::quiet_NaN()), near_one,
      Reduction::Sum()));
}

TEST(CanonicalReductionTest, IntegersAreNearOnlyIfExact) {
  const auto terms = Each<int32_t>(DataType::kI32, {4, 5});
  EXPECT_TRUE(IsWithinOneRoundingPerHop(One<int32_t>(DataType::kI32, 9), terms,
                                        Reduction::Sum()));
  EXPECT_FALSE(IsWithinOneRoundingPerHop(One<int32_t>(DataType::kI32, 8), terms,
                                         Reduction::Sum()));
}

}  // namespace
}  // namespace muonshard::testing
