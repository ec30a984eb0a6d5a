// A 64-bit hash that is the same in every build, which those of the standard
// library and of Abseil are not. For telling things apart, not for secrets.

#ifndef OPTIMIZER_STABLE_HASH_H_
#define OPTIMIZER_STABLE_HASH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muonshard {

class StableHasher {
 public:
  void Add(uint64_t word) { state_ = Mix(state_ ^ word) + kIncrement; }

  void Add(absl::string_view text) {
    uint64_t hash = kTextStart;
    for (const char c : text) {
      hash = (hash ^ static_cast<unsigned char>(c)) * kTextFactor;
    }
    Add(hash);
    Add(static_cast<uint64_t>(text.size()));
  }

  uint64_t value() const { return Mix(state_); }

 private:
  // FNV-1a for bytes, the finalizer of SplitMix64 for words.
  static constexpr uint64_t kTextStart = 0xcbf29ce484222325;
  static constexpr uint64_t kTextFactor = 0x100000001b3;
  static constexpr uint64_t kIncrement = 0x9e3779b97f4a7c15;

  static uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  uint64_t state_ = kIncrement;
};

// Of a lot of memory: at about the speed at which it can be read. Memories that
// differ in one aligned word of 8 bytes have different hashes.
uint64_t HashBytes(const std::byte* data, size_t bytes);

inline uint64_t HashLines(const std::vector<std::string>& lines) {
  StableHasher hasher;
  for (const std::string& line : lines) hasher.Add(absl::string_view(line));
  return hasher.value();
}

}  // namespace muonshard

#endif  // OPTIMIZER_STABLE_HASH_H_
