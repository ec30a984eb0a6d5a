#include "optimizer/stable_hash.h"

#include <gtest/gtest.h>

namespace muonshard {
namespace {

uint64_t HashOf(absl::string_view text) {
  StableHasher hasher;
  hasher.Add(text);
  return hasher.value();
}

TEST(StableHashTest, EveryCharacterCounts) {
  EXPECT_NE(HashOf("a"), HashOf("b"));
  EXPECT_NE(HashOf(""), HashOf(absl::string_view("\0", 1)));
  EXPECT_EQ(HashOf("ab"), HashOf("ab"));
}

TEST(StableHashTest, WhereALineEndsAndWhichComesFirstCount) {
  EXPECT_NE(HashLines({"ab"}), HashLines({"a", "b"}));
  EXPECT_NE(HashLines({"a", "b"}), HashLines({"b", "a"}));
  EXPECT_NE(HashLines({}), HashLines({""}));
  EXPECT_EQ(HashLines({"a", "b"}), HashLines({"a", "b"}));
}

}  // namespace
}  // namespace muonshard
