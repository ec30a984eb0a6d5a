#include "plugins/support/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace muonshard::plugins {
namespace {

// One 16-bit format, with its conversions under test.
struct Format {
  int mantissa_bits;
  int exponent_bias;
  uint32_t exponent_mask;
  float (*to_float)(uint16_t);
  uint16_t (*from_float)(float);
};

constexpr Format kFormats[] = {
    {7, 127, 0xff, &FloatFromBF16, &BF16FromFloat},
    {10, 15, 0x1f, &FloatFromF16, &F16FromFloat},
};

// By the definition of the format, in the wider type.
double ValueOf(const Format& format, uint32_t bits) {
  const uint32_t exponent =
      (bits >> format.mantissa_bits) & format.exponent_mask;
  const uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  const int scale = -format.exponent_bias - format.mantissa_bits;
  if (exponent == 0) return sign * std::ldexp(mantissa, scale + 1);
  return sign * std::ldexp((1u << format.mantissa_bits) | mantissa,
                           static_cast<int>(exponent) + scale);
}

uint32_t InfinityOf(const Format& format) {
  return format.exponent_mask << format.mantissa_bits;
}

TEST(HalfTest, EveryFiniteValueIsExactThereAndBack) {
  for (const Format& format : kFormats) {
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
      if ((bits & 0x7fffu) >= InfinityOf(format)) continue;
      const auto stored = static_cast<uint16_t>(bits);
      const float value = format.to_float(stored);
      ASSERT_EQ(value, ValueOf(format, bits)) << bits;
      ASSERT_EQ(std::signbit(value), bits >= 0x8000u) << bits;
      ASSERT_EQ(format.from_float(value), stored);
    }
  }
}

TEST(HalfTest, BetweenTwoValuesTheNearerOneIsTakenAndTheEvenOneOfTies) {
  for (const Format& format : kFormats) {
    // The last one's upper neighbour would be infinity; see below.
    for (uint32_t bits = 0; bits + 1 < InfinityOf(format); ++bits) {
      const double low = ValueOf(format, bits);
      const double high = ValueOf(format, bits + 1);
      // Exact: both formats have at most half of f32's mantissa bits.
      const auto middle = static_cast<float>((low + high) / 2);
      const float below = std::nextafter(middle, 0.0f);
      const float above =
          std::nextafter(middle, std::numeric_limits<float>::infinity());
      ASSERT_EQ(format.from_float(middle), bits + (bits & 1)) << bits;
      ASSERT_EQ(format.from_float(below), bits);
      ASSERT_EQ(format.from_float(above), bits + 1);
      ASSERT_EQ(format.from_float(-above), 0x8000u | (bits + 1));
    }
  }
}

TEST(HalfTest, WhatIsTooLargeBecomesInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Format& format : kFormats) {
    EXPECT_EQ(format.from_float(kInfinity), InfinityOf(format));
    EXPECT_EQ(format.from_float(-kInfinity), 0x8000u | InfinityOf(format));
    EXPECT_EQ(format.to_float(static_cast<uint16_t>(InfinityOf(format))),
              kInfinity);
  }
  EXPECT_EQ(F16FromFloat(65519.996f), 0x7bffu);  // Below the middle to 65536.
  EXPECT_EQ(F16FromFloat(65520.0f), 0x7c00u);
  EXPECT_EQ(BF16FromFloat(std::numeric_limits<float>::max()), 0x7f80u);
}

TEST(HalfTest, ANanStaysOneWithItsSign) {
  // A NaN whose payload has none of the bits that the narrow formats keep.
  const auto faint = std::bit_cast<float>(0x7f800001u);
  for (const Format& format : kFormats) {
    const uint16_t nan = format.from_float(faint);
    EXPECT_TRUE(std::isnan(format.to_float(nan)));
    EXPECT_EQ(nan & 0x8000u, 0u);
    EXPECT_NE(format.from_float(-faint) & 0x8000u, 0u);
  }
}

}  // namespace
}  // namespace muonshard::plugins
