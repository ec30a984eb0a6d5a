// Random numbers that are the same on every machine: a counter through a
// mixing function.

#ifndef TOOLS_TRAINER_RANDOM_BITS_H_
#define TOOLS_TRAINER_RANDOM_BITS_H_

#include <cstdint>
#include <initializer_list>

#include "collectives/runtime/split_mix64.h"

namespace muonshard {

class RandomBits {
 public:
  explicit RandomBits(uint64_t seed) : generator_(seed) {}

  // The stream that belongs to a tuple, such as (seed, step, rank).
  static RandomBits Of(std::initializer_list<uint64_t> tuple) {
    uint64_t state = 0;
    for (uint64_t value : tuple) state = SplitMix64(state ^ value).Next();
    return RandomBits(state);
  }

  uint64_t Next() { return generator_.Next(); }

  // In [0, bound), for a bound > 0. The bias is below bound / 2^64.
  uint64_t Below(uint64_t bound) { return generator_.Below(bound); }

  // In (0, 1].
  double Unit() { return static_cast<double>((Next() >> 11) + 1) * 0x1.0p-53; }

 private:
  SplitMix64 generator_;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_RANDOM_BITS_H_
