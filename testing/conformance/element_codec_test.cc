#include "testing/conformance/element_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace muonshard::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ElementCodecTest, EveryF16ReadsAndWritesAsItself) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = F16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_GT(bits & 0x7FFFu, 0x7C00u);
    } else {
      EXPECT_EQ(FloatToF16(value), bits);
    }
  }
}

TEST(ElementCodecTest, EveryBF16ReadsAndWritesAsItself) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = BF16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_GT(bits & 0x7FFFu, 0x7F80u);
    } else {
      EXPECT_EQ(FloatToBF16(value), bits);
    }
  }
}

TEST(ElementCodecTest, KnownValuesOfF16) {
  EXPECT_EQ(F16ToFloat(0x3C00), 1);
  EXPECT_EQ(F16ToFloat(0xC000), -2);
  EXPECT_EQ(F16ToFloat(0x0001), 0x1p-24F);
  EXPECT_EQ(F16ToFloat(0x7BFF), 65504);
  EXPECT_EQ(F16ToFloat(0x7C00), kInfinity);
}

TEST(ElementCodecTest, F16RoundsToTheNearestTiesToEven) {
  EXPECT_EQ(FloatToF16(1 + 0x1p-11F), 0x3C00);             // Half way, down.
  EXPECT_EQ(FloatToF16(1 + 0x1p-11F + 0x1p-20F), 0x3C01);  // Above half.
  EXPECT_EQ(FloatToF16(1 + 3 * 0x1p-11F), 0x3C02);         // Half way, up.
  EXPECT_EQ(FloatToF16(2 - 0x1p-12F), 0x4000);             // Carries.
  EXPECT_EQ(FloatToF16(0x1p-14F - 0x1p-26F), 0x0400);      // Into a normal.
  EXPECT_EQ(FloatToF16(0x1p-25F), 0);                      // Half of the least.
  EXPECT_EQ(FloatToF16(65519), 0x7BFF);
  EXPECT_EQ(FloatToF16(65520), 0x7C00);
  EXPECT_EQ(FloatToF16(-kInfinity), 0xFC00);
}

TEST(ElementCodecTest, BF16RoundsToTheNearestTiesToEven) {
  EXPECT_EQ(FloatToBF16(1), 0x3F80);
  EXPECT_EQ(FloatToBF16(1 + 0x1p-8F), 0x3F80);
  EXPECT_EQ(FloatToBF16(1 + 0x1p-8F + 0x1p-20F), 0x3F81);
  EXPECT_EQ(FloatToBF16(1 + 3 * 0x1p-8F), 0x3F82);
  EXPECT_EQ(FloatToBF16(std::numeric_limits<float>::max()), 0x7F80);
}

TEST(ElementCodecTest, IntegersAreHeldExactlyByEveryType) {
  for (const DataType type :
       {DataType::kBF16, DataType::kF16, DataType::kF32, DataType::kF64,
        DataType::kI32, DataType::kI64, DataType::kU8}) {
    uint64_t element = 0;
    EncodeInteger(255, type, &element);
    EXPECT_EQ(DecodeReal(type, &element), 255) << DataTypeName(type);
  }
}

TEST(ElementCodecTest, PrintsValueAndBits) {
  const float one = 1;
  EXPECT_EQ(Printed(DataType::kF32, &one), "1 (0x3f800000)");
}

}  // namespace
}  // namespace muonshard::testing
