#include "collectives/runtime/sim_scheduler.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace muonshard {
namespace {

constexpr std::array<uint64_t, 3> kTasks = {2, 5, 9};

TEST(SimScheduler, MixBitsIsTheOutputFunctionOfSplitMix64) {
  // The published first outputs of splitmix64 for seed 0.
  EXPECT_EQ(MixBits(0x9e3779b97f4a7c15), 0xe220a8397b1dcdafu);
  EXPECT_EQ(MixBits(2 * 0x9e3779b97f4a7c15), 0x6e789e6aa1b965f4u);
}

TEST(SimScheduler, EqualSeedsChooseEqually) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::unique_ptr<SimScheduler> one = NewRandomScheduler(seed);
    const std::unique_ptr<SimScheduler> two = NewRandomScheduler(seed);
    for (size_t i = 0; i < 100; ++i) {
      const SimChoice choice = {
          .call = SimCall::kLock, .candidates = kTasks, .caller = i % 4};
      const size_t chosen = one->Choose(choice);
      EXPECT_EQ(two->Choose(choice), chosen);
      EXPECT_LT(chosen, kTasks.size());
    }
  }
}

TEST(SimScheduler, EveryCandidateIsChosenAtSomeTime) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::unique_ptr<SimScheduler> scheduler = NewRandomScheduler(seed);
    std::vector<bool> chosen(kTasks.size(), false);
    for (int i = 0; i < 500; ++i) {
      chosen[scheduler->Choose(
          {.call = SimCall::kUnlock, .candidates = kTasks, .caller = 1})] =
          true;
    }
    EXPECT_EQ(chosen, std::vector<bool>(kTasks.size(), true)) << seed;
  }
}

TEST(SimScheduler, SomeSeedsStayWithTheCallerMoreThanOthers) {
  // The caller goes on with probability 1/3 for the most restless seeds and
  // 7/8 + 1/8 * 1/3 = 11/12 for the calmest; 1/2 and 3/4 lie between.
  bool restless_seen = false;
  bool calm_seen = false;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::unique_ptr<SimScheduler> scheduler = NewRandomScheduler(seed);
    int stayed = 0;
    for (int i = 0; i < 1000; ++i) {
      stayed +=
          scheduler->Choose(
              {.call = SimCall::kLock, .candidates = kTasks, .caller = 2}) == 2;
    }
    restless_seen = restless_seen || stayed < 500;
    calm_seen = calm_seen || stayed > 750;
  }
  EXPECT_TRUE(restless_seen);
  EXPECT_TRUE(calm_seen);
}

TEST(SimScheduler, AYieldGivesEveryTaskTheSameChance) {
  constexpr int kRounds = 3000;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::unique_ptr<SimScheduler> scheduler = NewRandomScheduler(seed);
    int stayed = 0;
    for (int i = 0; i < kRounds; ++i) {
      stayed += scheduler->Choose({.call = SimCall::kYield,
                                   .candidates = kTasks,
                                   .caller = 0}) == 0;
    }
    // Binomial(3000, 1/3): six standard deviations of 25.8 around 1000.
    EXPECT_NEAR(stayed, kRounds / 3, 155) << seed;
  }
}

}  // namespace
}  // namespace muonshard
