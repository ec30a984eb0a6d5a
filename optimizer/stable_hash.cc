#include "optimizer/stable_hash.h"

#include <array>
#include <bit>
#include <cstring>

namespace muonshard {

uint64_t HashBytes(const std::byte* data, size_t bytes) {
  // Lanes do not wait for one another's multiplication. What one does with a
  // word can be undone, so no two words lead from one state to the same.
  constexpr size_t kLanes = 4;
  constexpr size_t kRound = kLanes * sizeof(uint64_t);
  // Odd. After the first alone the highest bit of a word would reach one known
  // bit, and the next word of the lane could undo it.
  constexpr uint64_t kFactor1 = 0xd6e8feb86659fd93;
  constexpr uint64_t kFactor2 = 0x9fb21c651e98df25;
  std::array<uint64_t, kLanes> lanes = {0x243f6a8885a308d3, 0x13198a2e03707344,
                                        0xa4093822299f31d0, 0x082efa98ec4e6c89};
  const auto take = [&lanes](const std::array<uint64_t, kLanes>& words) {
    for (size_t i = 0; i < kLanes; ++i) {
      const uint64_t x = (lanes[i] ^ words[i]) * kFactor1;
      lanes[i] = std::rotl((x ^ (x >> 32)) * kFactor2, 29);
    }
  };
  std::array<uint64_t, kLanes> words;
  size_t taken = 0;
  for (; bytes - taken >= kRound; taken += kRound) {
    std::memcpy(words.data(), data + taken, kRound);
    take(words);
  }
  words = {};
  // Memory of no bytes may be null, which memcpy may not be given.
  if (bytes > taken) std::memcpy(words.data(), data + taken, bytes - taken);
  take(words);
  StableHasher hasher;
  for (const uint64_t lane : lanes) hasher.Add(lane);
  hasher.Add(static_cast<uint64_t>(bytes));
  return hasher.value();
}

}  // namespace muonshard
