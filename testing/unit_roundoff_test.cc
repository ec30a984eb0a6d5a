#include "testing/unit_roundoff.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>

#include "optimizer/compute/convert.h"

namespace muonshard::testing {
namespace {

// `value` rounded to `type`.
float Rounded(DataType type, float value) {
  std::byte bytes[sizeof(float)];
  FromFloat(type, std::span<const float>(&value, 1), bytes);
  float result = 0;
  ToFloat(type, bytes, std::span<float>(&result, 1));
  return result;
}

// Numbers from 1 on have the largest relative error half way to the next, and
// half way is rounded to even.
TEST(UnitRoundoffTest, IsHalfWayFromOneToTheNextNumber) {
  for (const DataType type : {DataType::kBF16, DataType::kF16}) {
    const double u = UnitRoundoff(type);
    EXPECT_EQ(Rounded(type, static_cast<float>(1 + u)), 1.0f);
    EXPECT_EQ(Rounded(type, static_cast<float>(1 + u * 1.0625)), 1 + 2 * u);
  }
  EXPECT_EQ(static_cast<float>(1 + kF32Roundoff), 1.0f);
  EXPECT_EQ(static_cast<float>(1 + kF32Roundoff * 1.0625), 1 + 0x1p-23f);
  volatile double one = 1;  // So that the sums are rounded when they are made.
  const double u = UnitRoundoff(DataType::kF64);
  EXPECT_EQ(one + u, 1.0);
  EXPECT_EQ(one + u * 1.0625, 1 + 2 * u);
}

TEST(UnitRoundoffTest, IntegersAreExact) {
  for (const DataType type : {DataType::kU8, DataType::kI32, DataType::kI64}) {
    EXPECT_EQ(UnitRoundoff(type), 0);
  }
}

}  // namespace
}  // namespace muonshard::testing
