#include "collectives/runtime/sim_scheduler.h"

namespace muonshard {
namespace {

// Splitmix64, and not a generator of <random>, whose distributions differ from
// one standard library to the next.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    return MixBits(state_);
  }

 private:
  uint64_t state_;
};

class RandomScheduler final : public SimScheduler {
 public:
  explicit RandomScheduler(uint64_t seed)
      : random_(seed), stay_bits_(random_.Next() % 4) {}

  size_t Choose(const SimChoice& choice) override {
    const bool may_stay = choice.caller < choice.candidates.size() &&
                          choice.call != SimCall::kYield;
    if (may_stay && Stays()) return choice.caller;
    return static_cast<size_t>(random_.Next() % choice.candidates.size());
  }

 private:
  // True with probability 0, 1/2, 3/4 or 7/8, by seed.
  bool Stays() {
    const uint64_t mask = (uint64_t{1} << stay_bits_) - 1;
    return (random_.Next() & mask) != 0;
  }

  SplitMix64 random_;
  const uint64_t stay_bits_;
};

}  // namespace

uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::unique_ptr<SimScheduler> NewRandomScheduler(uint64_t seed) {
  return std::make_unique<RandomScheduler>(seed);
}

}  // namespace muonshard
