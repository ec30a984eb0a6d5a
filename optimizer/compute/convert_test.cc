#include "optimizer/compute/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

namespace muonshard {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A 16-bit floating type by its widths: what its bits mean, in fp64.
struct NarrowType {
  DataType type;
  int mantissa_bits;
  int exponent_bias;
  uint16_t infinity;
};

constexpr NarrowType kF16 = {DataType::kF16, 10, 15, 0x7c00};
constexpr NarrowType kBF16 = {DataType::kBF16, 7, 127, 0x7f80};

// The value of finite, positive `bits`.
double Meaning(const NarrowType& narrow, uint16_t bits) {
  const int exponent = bits >> narrow.mantissa_bits;
  const int implicit_bit = exponent > 0 ? 1 << narrow.mantissa_bits : 0;
  const int mantissa =
      (bits & ((1 << narrow.mantissa_bits) - 1)) | implicit_bit;
  return std::ldexp(mantissa, std::max(exponent, 1) - narrow.exponent_bias -
                                  narrow.mantissa_bits);
}

float Widen(const NarrowType& narrow, uint16_t bits) {
  float result = 0;
  ToFloat(narrow.type, &bits, std::span(&result, 1));
  return result;
}

uint16_t Narrow(const NarrowType& narrow, float value) {
  uint16_t result = 0;
  FromFloat(narrow.type, std::span(&value, 1), &result);
  return result;
}

class NarrowTypeTest : public ::testing::TestWithParam<NarrowType> {};

TEST_P(NarrowTypeTest, EveryFiniteValueIsReadExactlyAndWrittenBack) {
  for (uint16_t bits = 0; bits < GetParam().infinity; ++bits) {
    const uint16_t negative = bits | 0x8000u;
    const float value = Widen(GetParam(), bits);
    ASSERT_EQ(double{value}, Meaning(GetParam(), bits)) << bits;
    ASSERT_EQ(Widen(GetParam(), negative), -value) << bits;
    ASSERT_TRUE(std::signbit(Widen(GetParam(), negative))) << bits;
    ASSERT_EQ(Narrow(GetParam(), value), bits);
    ASSERT_EQ(Narrow(GetParam(), -value), negative);
  }
}

TEST_P(NarrowTypeTest, BetweenNeighboursTheNearerIsWrittenAndTiesGoToEven) {
  // The last pair is the largest finite value and infinity, whose place in
  // rounding is that of the next finite value.
  for (uint16_t bits = 0; bits < GetParam().infinity; ++bits) {
    const uint16_t next = static_cast<uint16_t>(bits + 1);
    const double middle =
        (Meaning(GetParam(), bits) + Meaning(GetParam(), next)) / 2;
    const float tie = static_cast<float>(middle);
    // Below the smallest f32 there is no middle to write.
    if (double{tie} != middle) continue;
    ASSERT_EQ(Narrow(GetParam(), tie), bits % 2 == 0 ? bits : next) << bits;
    ASSERT_EQ(Narrow(GetParam(), std::nextafter(tie, 0.0f)), bits) << bits;
    ASSERT_EQ(Narrow(GetParam(), std::nextafter(tie, kInfinity)), next) << bits;
  }
}

TEST_P(NarrowTypeTest, InfinityAndNaNStayWhatTheyAre) {
  const uint16_t infinity = GetParam().infinity;
  EXPECT_EQ(Narrow(GetParam(), kInfinity), infinity);
  EXPECT_EQ(Narrow(GetParam(), -kInfinity), infinity | 0x8000u);
  EXPECT_EQ(Narrow(GetParam(), std::numeric_limits<float>::max()), infinity);
  EXPECT_EQ(Widen(GetParam(), infinity), kInfinity);
  EXPECT_EQ(Widen(GetParam(), infinity | 0x8000u), -kInfinity);
  for (uint16_t bits = infinity + 1; bits < 0x8000u; ++bits) {
    ASSERT_TRUE(std::isnan(Widen(GetParam(), bits))) << bits;
  }
  // The second has a payload in bits that the narrow type does not have.
  for (const uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xffffffffu}) {
    const uint16_t narrow = Narrow(GetParam(), std::bit_cast<float>(bits));
    EXPECT_GT(narrow & 0x7fffu, infinity) << bits;
    EXPECT_EQ(narrow >> 15, bits >> 31) << bits;
  }
}

TEST_P(NarrowTypeTest, NonFiniteValuesAreCounted) {
  const uint16_t infinity = GetParam().infinity;
  const uint16_t values[] = {0, infinity, static_cast<uint16_t>(infinity - 1),
                             static_cast<uint16_t>(infinity | 0x8000u),
                             static_cast<uint16_t>(infinity + 1)};
  EXPECT_EQ(CountNonFinite(GetParam().type, values, 5), 3);
}

INSTANTIATE_TEST_SUITE_P(Types, NarrowTypeTest, ::testing::Values(kF16, kBF16),
                         [](const auto& type) {
                           return type.param.type == DataType::kF16 ? "F16"
                                                                    : "BF16";
                         });

TEST(ConvertTest, FloatingTypesAreFour) {
  EXPECT_TRUE(IsFloating(DataType::kBF16));
  EXPECT_TRUE(IsFloating(DataType::kF16));
  EXPECT_TRUE(IsFloating(DataType::kF32));
  EXPECT_TRUE(IsFloating(DataType::kF64));
  EXPECT_FALSE(IsFloating(DataType::kI32));
  EXPECT_FALSE(IsFloating(DataType::kI64));
  EXPECT_FALSE(IsFloating(DataType::kU8));
}

TEST(ConvertTest, F64IsRoundedToF32AndWrittenExactly) {
  const double in[] = {1 + std::ldexp(1.0, -24), 1e300, 0.1};
  float out[3];
  ToFloat(DataType::kF64, in, out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], kInfinity);
  EXPECT_EQ(out[2], 0.1f);
  double back[3];
  FromFloat(DataType::kF64, out, back);
  EXPECT_EQ(back[2], double{0.1f});
  EXPECT_EQ(CountNonFinite(DataType::kF64, back, 3), 1);
}

TEST(ConvertTest, F32KeepsEveryBit) {
  const uint32_t bits[] = {0x7f800001u, 0x80000000u, 0x00000001u};
  float values[3];
  ToFloat(DataType::kF32, bits, values);
  uint32_t back[3];
  FromFloat(DataType::kF32, values, back);
  EXPECT_EQ(std::memcmp(bits, back, sizeof(bits)), 0);
  EXPECT_EQ(CountNonFinite(DataType::kF32, bits, 3), 1);
}

class RangeTest : public ::testing::TestWithParam<DataType> {};

// Values are small integers, which every type holds exactly.
TEST_P(RangeTest, AnyLengthAtAnyAlignmentIsConvertedAndNothingBesides) {
  const size_t width = ByteWidth(GetParam());
  for (const size_t count : {0, 1, 7, 255, 256, 257, 600}) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(i % 200) - 100;
    }
    // One byte before and after that must stay; the first also makes the
    // elements unaligned.
    std::vector<std::byte> bytes(count * width + 2, std::byte{0x5a});
    FromFloat(GetParam(), values, bytes.data() + 1);
    EXPECT_EQ(bytes.front(), std::byte{0x5a});
    EXPECT_EQ(bytes.back(), std::byte{0x5a});
    std::vector<float> back(count + 1, 55.0f);
    ToFloat(GetParam(), bytes.data() + 1, std::span(back).first(count));
    EXPECT_EQ(back.back(), 55.0f);
    back.resize(count);
    EXPECT_EQ(back, values);
    AddToFloat(GetParam(), bytes.data() + 1, back);
    for (float& value : values) value *= 2;
    EXPECT_EQ(back, values);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RangeTest,
                         ::testing::Values(DataType::kBF16, DataType::kF16,
                                           DataType::kF32, DataType::kF64));

}  // namespace
}  // namespace muonshard
