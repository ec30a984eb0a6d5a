// Random numbers that are the same on every machine: a counter through a
// mixing function.

#ifndef TOOLS_TRAINER_RANDOM_BITS_H_
#define TOOLS_TRAINER_RANDOM_BITS_H_

#include <cstdint>
#include <initializer_list>

namespace muonshard {

// SplitMix64.
class RandomBits {
 public:
  explicit RandomBits(uint64_t seed) : state_(seed) {}

  // The stream that belongs to a tuple, such as (seed, step, rank).
  static RandomBits Of(std::initializer_list<uint64_t> tuple) {
    RandomBits bits(0);
    for (uint64_t value : tuple) {
      bits.state_ ^= value;
      bits.state_ = bits.Next();
    }
    return bits;
  }

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // In [0, bound), for a bound > 0. The bias is below bound / 2^64.
  uint64_t Below(uint64_t bound) { return Next() % bound; }

  // In (0, 1].
  double Unit() { return static_cast<double>((Next() >> 11) + 1) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_RANDOM_BITS_H_
