// Random numbers for tests: the same for a seed on every platform, which the
// distributions of the standard library are not.

#ifndef TESTING_SEEDED_RANDOM_H_
#define TESTING_SEEDED_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/runtime/split_mix64.h"

namespace muonshard::testing {

class SeededRandom {
 public:
  explicit SeededRandom(uint64_t seed) : generator_(seed) {}

  // Goes to another stream for each sequence of values.
  void Mix(uint64_t value) {
    generator_ = SplitMix64(Next() ^ (value * 0xd1342543de82ef95u));
  }

  uint64_t Next() { return generator_.Next(); }

  // In [0, limit).
  uint64_t Below(uint64_t limit) { return generator_.Below(limit); }

  // In [low, high), a multiple of (high - low) / 2^24.
  float Between(float low, float high) {
    const auto unit = static_cast<float>(Next() >> 40) / 16777216.0f;
    return low + (high - low) * unit;
  }

  bool OneIn(uint64_t n) { return Below(n) == 0; }

  template <typename T>
  const T& Pick(const std::vector<T>& values) {
    return values[static_cast<size_t>(Below(values.size()))];
  }

  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[static_cast<size_t>(Below(i))]);
    }
  }

 private:
  SplitMix64 generator_;
};

}  // namespace muonshard::testing

#endif  // TESTING_SEEDED_RANDOM_H_
