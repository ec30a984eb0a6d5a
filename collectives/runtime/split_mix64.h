// The generator of all seeded choices: the same for a seed on every platform
// and in every build, which those of <random> are not, whose distributions
// differ from one standard library to the next.

#ifndef COLLECTIVES_RUNTIME_SPLIT_MIX64_H_
#define COLLECTIVES_RUNTIME_SPLIT_MIX64_H_

#include <cstdint>

namespace muonshard {

// A bijection of 64 bits in which each bit of `x` changes half of the result:
// the output function of splitmix64.
constexpr uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class SplitMix64 {
 public:
  explicit constexpr SplitMix64(uint64_t seed) : state_(seed) {}

  constexpr uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    return MixBits(state_);
  }

  // In [0, limit), for a limit > 0. The bias is below limit / 2^64.
  constexpr uint64_t Below(uint64_t limit) { return Next() % limit; }

 private:
  uint64_t state_;
};

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_SPLIT_MIX64_H_
