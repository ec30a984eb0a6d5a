#include "testing/conformance/elements.h"

#include <gtest/gtest.h>

#include <cstring>

namespace muonshard::testing {
namespace {

TEST(ElementsTest, EqualElementsHaveEqualBits) {
  for (const DataType type : kAllDataTypes) {
    const Elements elements = Elements::Random(type, 9, 1);
    EXPECT_TRUE(HasBitsOf(elements, Elements::Random(type, 9, 1)));
    EXPECT_FALSE(HasBitsOf(elements, Elements::Random(type, 9, 2)));
    EXPECT_FALSE(HasBitsOf(elements, Elements::Random(type, 8, 1)));
  }
  EXPECT_FALSE(
      HasBitsOf(Elements(DataType::kF32, 0), Elements(DataType::kF64, 0)));
}

TEST(ElementsTest, ADifferenceNamesTheFirstElement) {
  Elements elements = Elements::SmallIntegers(DataType::kI32, 9, 1);
  const Elements want = elements;
  const int32_t other = 77;
  std::memcpy(elements.out(4, 1).data, &other, sizeof(other));
  const ::testing::AssertionResult result = HasBitsOf(elements, want);
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find("element 4 of 9 i32 is 77"),
            std::string::npos)
      << result.message();
}

TEST(ElementsTest, AWriteBesideTheElementsBreaksAGuard) {
  for (const int side : {-1, 5}) {
    Elements elements(DataType::kU8, 5);
    EXPECT_TRUE(elements.GuardsAreIntact());
    static_cast<uint8_t*>(elements.out().data)[side] = 0;
    EXPECT_FALSE(elements.GuardsAreIntact());
    EXPECT_FALSE(HasBitsOf(elements, Elements(DataType::kU8, 5)));
  }
}

TEST(ElementsTest, NoElementsHaveNoMemory) {
  Elements elements(DataType::kF16, 3);
  EXPECT_EQ(elements.in(2, 0).data, nullptr);
  EXPECT_EQ(elements.out(2, 0).data, nullptr);
  EXPECT_NE(elements.in().data, nullptr);
}

TEST(ElementsTest, SlicesPutBackGiveTheWhole) {
  const Elements whole = Elements::RandomBits(DataType::kF64, 10, 3);
  Elements copy(DataType::kF64, 10);
  copy.Overwrite(6, whole.Slice(6, 4));
  EXPECT_FALSE(HasBitsOf(copy, whole));
  copy.Overwrite(0, whole.Slice(0, 6));
  EXPECT_TRUE(HasBitsOf(copy, whole));
}

}  // namespace
}  // namespace muonshard::testing
