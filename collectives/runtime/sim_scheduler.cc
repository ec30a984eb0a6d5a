#include "collectives/runtime/sim_scheduler.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace muonshard {
namespace {

bool CallerMayGoOn(const SimChoice& choice) {
  return choice.caller < choice.candidates.size();
}

// The caller may be waiting for what others do, by asking again and again. A
// wait with which it can go on is one whose deadline has passed.
bool MayPoll(const SimChoice& choice) {
  return CallerMayGoOn(choice) &&
         (choice.call == SimCall::kYield || choice.call == SimCall::kNow ||
          choice.call == SimCall::kWait);
}

class RandomScheduler final : public SimScheduler {
 public:
  explicit RandomScheduler(uint64_t seed)
      : random_(seed), stay_bits_(random_.Next() % 4) {}

  size_t Choose(const SimChoice& choice) override {
    const bool may_stay =
        CallerMayGoOn(choice) && choice.call != SimCall::kYield;
    if (may_stay && Stays()) return choice.caller;
    return random_.Below(choice.candidates.size());
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

class PctScheduler final : public SimScheduler {
 public:
  explicit PctScheduler(const PctOptions& options)
      : random_(options.seed), depth_(options.depth) {
    const uint64_t choice_count = std::max<uint64_t>(options.choice_count, 1);
    // The order of the levels is not that of the choices: who falls first may
    // fall below or above who falls later.
    for (int32_t level = 1; level < options.depth; ++level) {
      falls_.push_back(
          {.choice = random_.Next() % choice_count, .level = level});
    }
    std::sort(falls_.begin(), falls_.end(),
              [](const Fall& a, const Fall& b) { return a.choice > b.choice; });
  }

  size_t Choose(const SimChoice& choice) override {
    // Who is woken does not run yet.
    if (choice.call == SimCall::kWake) return First(choice);
    if (MayPoll(choice)) {
      // Below the levels of those that have fallen, too: it may wait for them.
      lowest_ -= depth_;
      priorities_[choice.candidates[choice.caller]] = lowest_;
    }
    size_t first = First(choice);
    while (!falls_.empty() && falls_.back().choice <= count_) {
      priorities_[choice.candidates[first]] =
          lowest_ - depth_ + falls_.back().level;
      falls_.pop_back();
      first = First(choice);
    }
    ++count_;
    return first;
  }

 private:
  struct Fall {
    uint64_t choice;
    int32_t level;  // From 1 to depth - 1.
  };

  size_t First(const SimChoice& choice) {
    size_t first = 0;
    for (size_t i = 1; i < choice.candidates.size(); ++i) {
      if (PriorityOf(choice.candidates[i]) >
          PriorityOf(choice.candidates[first])) {
        first = i;
      }
    }
    return first;
  }

  int64_t PriorityOf(uint64_t task) {
    const auto [it, is_new] = priorities_.try_emplace(task);
    if (is_new) it->second = static_cast<int64_t>(random_.Next() >> 1);
    return it->second;
  }

  SplitMix64 random_;
  std::vector<Fall> falls_;  // Descending by choice.
  std::unordered_map<uint64_t, int64_t> priorities_;
  const int64_t depth_;
  // Of the task that polled last. The levels lie below it, and above the next
  // one that polls.
  int64_t lowest_ = 0;
  uint64_t count_ = 0;
};

class StarvingScheduler final : public SimScheduler {
 public:
  explicit StarvingScheduler(uint64_t seed)
      : random_(seed),
        salt_(random_.Next()),
        // Stretches of 2^6, 2^9 or 2^12 choices, or without an end.
        stretch_bits_(6 + 3 * (random_.Next() % 4)) {}

  size_t Choose(const SimChoice& choice) override {
    ++count_;
    if (MayPoll(choice)) {
      return random_.Below(choice.candidates.size());
    }
    fed_.clear();
    for (size_t i = 0; i < choice.candidates.size(); ++i) {
      if (!Starves(choice.candidates[i])) fed_.push_back(i);
    }
    if (fed_.empty()) return random_.Below(choice.candidates.size());
    return fed_[random_.Below(fed_.size())];
  }

 private:
  // One task of four, by seed and stretch.
  bool Starves(uint64_t task) const {
    const uint64_t stretch = stretch_bits_ > 12 ? 0 : count_ >> stretch_bits_;
    return MixBits(salt_ + MixBits(task) + stretch) % 4 == 0;
  }

  SplitMix64 random_;
  const uint64_t salt_;
  const uint64_t stretch_bits_;
  uint64_t count_ = 0;
  std::vector<size_t> fed_;  // Of the choice at hand.
};

}  // namespace

size_t DefaultChoice(const SimChoice& choice) {
  if (!CallerMayGoOn(choice)) return 0;
  if (choice.call != SimCall::kYield) return choice.caller;
  return (choice.caller + 1) % choice.candidates.size();
}

std::unique_ptr<SimScheduler> NewRandomScheduler(uint64_t seed) {
  return std::make_unique<RandomScheduler>(seed);
}

std::unique_ptr<SimScheduler> NewPctScheduler(const PctOptions& options) {
  return std::make_unique<PctScheduler>(options);
}

std::unique_ptr<SimScheduler> NewStarvingScheduler(uint64_t seed) {
  return std::make_unique<StarvingScheduler>(seed);
}

}  // namespace muonshard
