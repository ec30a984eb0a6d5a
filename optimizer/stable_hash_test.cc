#include "optimizer/stable_hash.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

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

TEST(StableHashTest, EveryBitOfMemoryAndItsLengthCount) {
  std::set<uint64_t> hashes;
  size_t count = 0;
  for (size_t bytes = 0; bytes <= 100; ++bytes) {
    std::vector<std::byte> memory(bytes);
    hashes.insert(HashBytes(memory.data(), bytes));
    ++count;
    for (size_t bit = 0; bit < 8 * bytes; ++bit) {
      memory[bit / 8] ^= std::byte{1} << (bit % 8);
      hashes.insert(HashBytes(memory.data(), bytes));
      ++count;
      memory[bit / 8] = {};
    }
  }
  EXPECT_EQ(hashes.size(), count);
}

TEST(StableHashTest, WordsThatChangePlacesCount) {
  std::vector<std::byte> memory(96);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = std::byte(i / 8);
  const uint64_t first = HashBytes(memory.data(), memory.size());
  EXPECT_EQ(HashBytes(memory.data(), memory.size()), first);
  // Within one round of words, and from one round to the next.
  for (const size_t other : {8, 32, 88}) {
    std::vector<std::byte> swapped = memory;
    for (size_t i = 0; i < 8; ++i) std::swap(swapped[i], swapped[other + i]);
    EXPECT_NE(HashBytes(swapped.data(), swapped.size()), first);
  }
}

}  // namespace
}  // namespace muonshard
