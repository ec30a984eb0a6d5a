#include "collectives/runtime/sim_scheduler.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
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

TEST(SimScheduler, TheDefaultStaysAndAfterAYieldGoesRound) {
  const auto chosen = [](SimCall call, size_t caller) {
    return DefaultChoice(
        {.call = call, .candidates = kTasks, .caller = caller});
  };
  EXPECT_EQ(chosen(SimCall::kLock, 1), 1u);
  EXPECT_EQ(chosen(SimCall::kLock, kTasks.size()), 0u);
  EXPECT_EQ(chosen(SimCall::kYield, 1), 2u);
  EXPECT_EQ(chosen(SimCall::kYield, 2), 0u);
}

// Every scheduler that is drawn by a seed.
std::vector<std::unique_ptr<SimScheduler>> AllOf(uint64_t seed) {
  std::vector<std::unique_ptr<SimScheduler>> all;
  all.push_back(NewRandomScheduler(seed));
  for (const int32_t depth : {2, 3, 4}) {
    all.push_back(
        NewPctScheduler({.seed = seed, .depth = depth, .choice_count = 100}));
  }
  all.push_back(NewStarvingScheduler(seed));
  return all;
}

TEST(SimScheduler, EveryKindIsAFunctionOfItsSeed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto one = AllOf(seed);
    const auto two = AllOf(seed);
    for (size_t kind = 0; kind < one.size(); ++kind) {
      for (size_t i = 0; i < 200; ++i) {
        const SimChoice choice = {
            .call = SimCall::kLock, .candidates = kTasks, .caller = i % 4};
        const size_t chosen = one[kind]->Choose(choice);
        EXPECT_EQ(two[kind]->Choose(choice), chosen);
        EXPECT_LT(chosen, kTasks.size());
      }
    }
  }
}

TEST(SimScheduler, UnderEveryKindATaskThatPollsLetsAllOthersRun) {
  for (const SimCall call : {SimCall::kYield, SimCall::kNow, SimCall::kWait}) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      for (const std::unique_ptr<SimScheduler>& scheduler : AllOf(seed)) {
        std::vector<bool> chosen(kTasks.size(), false);
        size_t caller = 0;
        for (int i = 0; i < 500; ++i) {
          caller = scheduler->Choose(
              {.call = call, .candidates = kTasks, .caller = caller});
          chosen[caller] = true;
        }
        EXPECT_EQ(chosen, std::vector<bool>(kTasks.size(), true)) << seed;
      }
    }
  }
}

TEST(SimScheduler, PctChangesTheRunningTaskDepthLessOneTimes) {
  for (const int32_t depth : {1, 2, 3}) {
    int changes_max = 0;
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const auto scheduler =
          NewPctScheduler({.seed = seed, .depth = depth, .choice_count = 50});
      int changes = 0;
      size_t running = kTasks.size();
      for (int i = 0; i < 60; ++i) {
        const size_t chosen = scheduler->Choose({.call = SimCall::kLock,
                                                 .candidates = kTasks,
                                                 .caller = kTasks.size()});
        changes += running != kTasks.size() && chosen != running;
        running = chosen;
      }
      EXPECT_LE(changes, depth - 1);
      changes_max = std::max(changes_max, changes);
    }
    EXPECT_EQ(changes_max, depth - 1);
  }
}

TEST(SimScheduler, PctLetsATaskFallBelowThoseThatHavePolled) {
  // Ranks look at the clock all the time: a fall that only those saw which have
  // not would never be one.
  constexpr uint64_t kChoices = 30;
  int falls = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto scheduler =
        NewPctScheduler({.seed = seed, .depth = 2, .choice_count = kChoices});
    // The one fall may come among these, which take turns anyway.
    for (size_t i = 0; i < kTasks.size(); ++i) {
      scheduler->Choose(
          {.call = SimCall::kNow, .candidates = kTasks, .caller = i});
    }
    int changes = 0;
    size_t running = kTasks.size();
    for (uint64_t i = 0; i < kChoices; ++i) {
      const size_t chosen = scheduler->Choose({.call = SimCall::kLock,
                                               .candidates = kTasks,
                                               .caller = kTasks.size()});
      changes += running != kTasks.size() && chosen != running;
      running = chosen;
    }
    EXPECT_LE(changes, 1);
    falls += changes;
  }
  // Drawn behind the first lock with probability 26 / 30: 87 of 100 seeds. Five
  // standard deviations of 3.4 below it:
  EXPECT_GE(falls, 70);
}

TEST(SimScheduler, PctFindsAnOrderOfTwoEventsAsOftenAsItsBoundSays) {
  // Of n = 3 tasks the first must run the first `early` of its choices and then
  // give way to both others: one ordered pair of events, depth 2.
  constexpr uint64_t kChoices = 20;
  constexpr int kSeedCount = 3000;
  int found = 0;
  for (uint64_t seed = 0; seed < kSeedCount; ++seed) {
    const auto scheduler =
        NewPctScheduler({.seed = seed, .depth = 2, .choice_count = kChoices});
    std::vector<size_t> order;
    for (uint64_t i = 0; i < kChoices; ++i) {
      order.push_back(scheduler->Choose({.call = SimCall::kLock,
                                         .candidates = kTasks,
                                         .caller = kTasks.size()}));
    }
    found += order[6] == 0 && order[7] != 0;
  }
  // 1 / (n k) of the seeds at least: 50 of 3000, six standard deviations of 7
  // below it 8.
  EXPECT_GE(found, 8);
}

TEST(SimScheduler, PctLetsWhoFellLaterRunBeforeWhoFellFirst) {
  // Three tasks run one after another; the second one that fell runs before the
  // first one that did. Then the third: all have fallen or have not begun.
  bool later_first = false;
  bool earlier_first = false;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const auto scheduler =
        NewPctScheduler({.seed = seed, .depth = 3, .choice_count = 20});
    std::vector<uint64_t> order;  // Of the tasks, as they came to run.
    for (int i = 0; i < 20; ++i) {
      const uint64_t chosen =
          kTasks[scheduler->Choose({.call = SimCall::kLock,
                                    .candidates = kTasks,
                                    .caller = kTasks.size()})];
      if (order.empty() || order.back() != chosen) order.push_back(chosen);
    }
    if (order.size() < 3) continue;
    // Who is above: the one that fell first, or second, with the third gone.
    const std::vector<uint64_t> fallen = {std::min(order[0], order[1]),
                                          std::max(order[0], order[1])};
    const uint64_t next = fallen[scheduler->Choose({.call = SimCall::kLock,
                                                    .candidates = fallen,
                                                    .caller = fallen.size()})];
    (next == order[0] ? earlier_first : later_first) = true;
  }
  EXPECT_TRUE(later_first);
  EXPECT_TRUE(earlier_first);
}

TEST(SimScheduler, AStarvingSchedulerHoldsSomeTaskBackAsLongAsAnotherCanRun) {
  int starved_seeds = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto scheduler = NewStarvingScheduler(seed);
    std::vector<bool> chosen(kTasks.size(), false);
    for (int i = 0; i < 500; ++i) {
      chosen[scheduler->Choose({.call = SimCall::kLock,
                                .candidates = kTasks,
                                .caller = kTasks.size()})] = true;
    }
    if (chosen == std::vector<bool>(kTasks.size(), true)) continue;
    ++starved_seeds;
    // Alone it runs.
    for (const uint64_t& task : kTasks) {
      EXPECT_EQ(scheduler->Choose({.call = SimCall::kLock,
                                   .candidates = std::span(&task, 1),
                                   .caller = 1}),
                0u);
    }
  }
  // A quarter of the seeds starve for ever, most of these one task at least,
  // and some of the others for a stretch of 4096 choices.
  EXPECT_GT(starved_seeds, 10);
  EXPECT_LT(starved_seeds, 70);
}

}  // namespace
}  // namespace muonshard
