#include "optimizer/compute/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace muonshard {
namespace {

using Limbs = std::array<int64_t, kExactSumLimbs>;
__extension__ using Integer = unsigned __int128;

constexpr double kMax = std::numeric_limits<double>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Sum(const std::vector<double>& terms) {
  ExactSum sum;
  for (const double term : terms) sum.Add(term);
  return sum.Value();
}

// Finite terms of any exponent, subnormal ones among them.
std::vector<double> TermsOfAllSizes(size_t count, std::mt19937_64& random) {
  std::vector<double> terms(count);
  for (double& term : terms) {
    const uint64_t exponent = random() % 2040;
    term = std::bit_cast<double>((exponent << 52) | (random() >> 12));
  }
  return terms;
}

TEST(ExactSumTest, NothingIsZero) {
  EXPECT_EQ(Sum({}), 0.0);
  EXPECT_EQ(Sum({0.0, -0.0}), 0.0);
}

TEST(ExactSumTest, OneTermIsItself) {
  std::mt19937_64 random(1);
  for (const double term : TermsOfAllSizes(5000, random)) {
    ASSERT_EQ(Sum({term}), term);
  }
  EXPECT_EQ(Sum({kMax}), kMax);
  EXPECT_EQ(Sum({5e-324}), 5e-324);
  EXPECT_EQ(Sum({std::numeric_limits<double>::min()}),
            std::numeric_limits<double>::min());
}

// The conversion of a 128-bit integer to double rounds to nearest even.
TEST(ExactSumTest, TheSumOfIntegersIsRoundedOnce) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 2000; ++round) {
    const int scale = static_cast<int>(random() % 1800) - 1000;
    ExactSum sum;
    Integer integer = 0;
    for (int i = 0; i < 20; ++i) {
      const uint64_t mantissa = random() >> (11 + random() % 40);
      const int shift = static_cast<int>(random() % 60);
      integer += static_cast<Integer>(mantissa) << shift;
      sum.Add(std::ldexp(static_cast<double>(mantissa), shift + scale));
    }
    // Far from subnormals, whose rounding would be another.
    ASSERT_EQ(sum.Value(), std::ldexp(static_cast<double>(integer), scale));
  }
}

TEST(ExactSumTest, TiesGoToEvenUnlessTheSmallestBitDecides) {
  const double two53 = std::ldexp(1.0, 53);
  EXPECT_EQ(Sum({two53, 1}), two53);
  EXPECT_EQ(Sum({two53, 1, 5e-324}), two53 + 2);
  EXPECT_EQ(Sum({two53 + 2, 1}), two53 + 4);
  EXPECT_EQ(Sum({two53, std::nextafter(1.0, 0.0)}), two53);
}

TEST(ExactSumTest, SubnormalsAddUpToNormals) {
  const double smallest = 5e-324;
  const double normal = std::numeric_limits<double>::min();
  EXPECT_EQ(Sum({smallest, smallest, smallest}), 3 * smallest);
  EXPECT_EQ(Sum({normal - smallest, smallest}), normal);
  EXPECT_EQ(Sum({normal, normal - smallest}), 2 * normal - smallest);
}

TEST(ExactSumTest, AboveTheRangeIsInfinite) {
  EXPECT_EQ(Sum({kMax, kMax}), kInfinity);
  EXPECT_EQ(Sum({kMax, std::ldexp(1.0, 969)}), kMax);
  // Half a unit of the last place: the tie goes to even, which is infinite.
  EXPECT_EQ(Sum({kMax, std::ldexp(1.0, 970)}), kInfinity);
  EXPECT_EQ(Sum(std::vector<double>(1000, kMax)), kInfinity);
}

TEST(ExactSumTest, ManyTermsCarry) {
  // All mantissa bits set, and enough terms to carry several times.
  const uint64_t mantissa = (uint64_t{1} << 53) - 1;
  const int64_t terms = 2'500'000;
  ExactSum sum;
  for (int64_t i = 0; i < terms; ++i) sum.Add(static_cast<double>(mantissa));
  EXPECT_EQ(sum.Value(), static_cast<double>(static_cast<Integer>(mantissa) *
                                             static_cast<Integer>(terms)));
}

TEST(ExactSumTest, AnyOrderAndAnySplitGiveTheSameBits) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<double> terms = TermsOfAllSizes(300, random);
    const double expected = Sum(terms);
    for (const size_t ranks : {1, 2, 3, 7, 64}) {
      std::shuffle(terms.begin(), terms.end(), random);
      std::vector<ExactSum> sums(ranks);
      for (const double term : terms) sums[random() % ranks].Add(term);
      Limbs total = {};
      for (const ExactSum& sum : sums) {
        Limbs limbs;
        sum.Export(limbs);
        for (size_t i = 0; i < limbs.size(); ++i) total[i] += limbs[i];
      }
      ExactSum joined;
      joined.AddLimbs(total);
      ASSERT_EQ(std::bit_cast<uint64_t>(joined.Value()),
                std::bit_cast<uint64_t>(expected));
    }
  }
}

TEST(ExactSumTest, ExportedLimbsLeaveRoomFor2To31Ranks) {
  ExactSum sum;
  for (int i = 0; i < 1000; ++i) sum.Add(kMax);
  Limbs limbs;
  sum.Export(limbs);
  for (const int64_t limb : limbs) {
    EXPECT_GE(limb, 0);
    EXPECT_LT(limb, int64_t{1} << 32);
  }
}

TEST(ExactSumTest, TheLargestLimbsAreAddedWithoutOverflow) {
  // What 2^31 ranks with all bits set in limbs 0 and 1 would send.
  Limbs limbs = {};
  limbs[0] = limbs[1] = (int64_t{1} << 31) * ((int64_t{1} << 32) - 1);
  ExactSum sum;
  // Together 2^31 (2^64 - 1) units of 2^-1074, which rounds to 2^95 of them.
  sum.AddLimbs(limbs);
  EXPECT_EQ(sum.Value(), std::ldexp(1.0, 95 - 1074));
  // Uncarried terms of its own lie in the same limbs.
  for (int i = 0; i < 1000; ++i) sum.Add(std::ldexp(1.0, 31 - 1074));
  sum.AddLimbs(limbs);
  Limbs exported;
  sum.Export(exported);
  const Integer units =
      (static_cast<Integer>(1) << 32) * ((static_cast<Integer>(1) << 64) - 1) +
      1000 * (static_cast<Integer>(1) << 31);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(static_cast<uint64_t>(exported[i]),
              static_cast<uint64_t>(units >> (32 * i)) & 0xffffffffu);
  }
}

TEST(ChunkSumOfSquaresTest, FoldsEightPartialSumsInOneFixedOrder) {
  std::mt19937_64 random(4);
  std::vector<float> values(19);
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(random() >> 40),
                       static_cast<int>(random() % 60) - 30);
  }
  const auto square = [&](size_t i) {
    return double{values[i]} * double{values[i]};
  };
  const double s0 = (square(0) + square(8)) + square(16);
  const double s1 = (square(1) + square(9)) + square(17);
  const double s2 = (square(2) + square(10)) + square(18);
  const double s3 = square(3) + square(11), s4 = square(4) + square(12);
  const double s5 = square(5) + square(13), s6 = square(6) + square(14);
  const double s7 = square(7) + square(15);
  EXPECT_EQ(ChunkSumOfSquares(values),
            ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)));
  EXPECT_EQ(ChunkSumOfSquares({}), 0);
}

TEST(ChunkSumOfSquaresTest, IsFiniteExactlyWhenTheValuesAre) {
  const std::vector<float> largest(kSquaresChunkCount,
                                   std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(ChunkSumOfSquares(largest)));
  for (const float value : {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(20, 1.0f);
    values[11] = value;
    EXPECT_FALSE(std::isfinite(ChunkSumOfSquares(values)));
  }
}

}  // namespace
}  // namespace muonshard
