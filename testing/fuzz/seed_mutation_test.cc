#include "testing/fuzz/seed_mutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "testing/fuzz/fuzz_input.h"
#include "testing/seeded_random.h"

namespace muonshard::testing {
namespace {

using ::testing::Le;
using ::testing::SizeIs;

TEST(SeedMutation, IsTheSameForASeedAndRarelyForAnother) {
  const std::vector<std::string> seeds = {"", "one", "another seed"};
  std::set<std::string> made;
  for (uint64_t i = 0; i < 1000; ++i) {
    SeededRandom random(i);
    SeededRandom again(i);
    const std::string text = MutateOneOf(seeds, 100, random);
    EXPECT_EQ(text, MutateOneOf(seeds, 100, again));
    made.insert(text);
  }
  // Of seeds this short many changes meet; a generator that is stuck, or that
  // changes nothing, makes a handful.
  EXPECT_GT(made.size(), 500u);
}

TEST(SeedMutation, StaysWithinItsLength) {
  SeededRandom random(1);
  const std::vector<std::string> seeds = {std::string(90, 'x')};
  for (int i = 0; i < 1000; ++i) {
    EXPECT_THAT(MutateOneOf(seeds, 100, random), SizeIs(Le(100u)));
  }
}

TEST(FuzzInput, GivesItsBytesInOrderThenZeros) {
  const uint8_t bytes[] = {1, 'a', 'b', 'c'};
  FuzzInput input(bytes, sizeof(bytes));
  EXPECT_EQ(input.TakeByte(), 1);
  EXPECT_EQ(input.TakeBytes(2), "ab");
  EXPECT_FALSE(input.empty());
  EXPECT_EQ(input.TakeBytes(9), "c");
  EXPECT_TRUE(input.empty());
  EXPECT_EQ(input.TakeByte(), 0);
  EXPECT_EQ(input.TakeRest(), "");
}

}  // namespace
}  // namespace muonshard::testing
