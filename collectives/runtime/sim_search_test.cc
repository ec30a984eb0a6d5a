#include "collectives/runtime/sim_search.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/runtime/sim_runtime.h"
#include "collectives/runtime/sim_scheduler.h"
#include "gtest/gtest.h"

namespace muonshard {
namespace {

absl::Status RunWith(SimScheduler& scheduler,
                     const std::function<void(Runtime&)>& program) {
  const auto runtime = SimRuntime::Create({.scheduler = &scheduler});
  return runtime->Run([&] { program(*runtime); });
}

// Two tasks that each write their letter `count` times; between two letters is
// one choice.
std::string Letters(Runtime& runtime, int count) {
  std::string written;
  std::vector<std::unique_ptr<Task>> tasks;
  for (const char letter : {'a', 'b'}) {
    tasks.push_back(runtime.Start("task", TaskKind::kProgram, [&, letter] {
      for (int i = 0; i < count; ++i) {
        if (i > 0) runtime.Yield();
        written.push_back(letter);
      }
    }));
  }
  for (const auto& task : tasks) task->Join();
  return written;
}

std::set<std::string> AllLetters(SimSearch& search, int count) {
  std::set<std::string> seen;
  while (SimScheduler* scheduler = search.Next()) {
    const absl::Status status = RunWith(*scheduler, [&](Runtime& runtime) {
      seen.insert(Letters(runtime, count));
    });
    EXPECT_TRUE(status.ok()) << status;
  }
  return seen;
}

TEST(SimSearch, RunsEveryInterleaving) {
  SimSearch search({.preemptions_max = 100});
  // (2 n)! / n!^2 of them.
  EXPECT_EQ(AllLetters(search, 3).size(), 20u);
  EXPECT_TRUE(search.complete());
  EXPECT_TRUE(search.status().ok()) << search.status();
  EXPECT_EQ(search.Next(), nullptr);
}

TEST(SimSearch, RunsEachScheduleOnce) {
  std::set<uint64_t> hashes;
  SimSearch search({.preemptions_max = 100});
  while (SimScheduler* scheduler = search.Next()) {
    const auto runtime = SimRuntime::Create({.scheduler = scheduler});
    EXPECT_TRUE(runtime->Run([&] { Letters(*runtime, 2); }).ok());
    EXPECT_TRUE(hashes.insert(runtime->trace_hash()).second);
  }
  EXPECT_EQ(static_cast<int64_t>(hashes.size()), search.run_count());
  EXPECT_GT(search.run_count(), 6);
}

TEST(SimSearch, SaysWhenItHasCutSchedulesOff) {
  SimSearch search({.preemptions_max = 100, .depth_max = 3});
  EXPECT_LT(AllLetters(search, 3).size(), 20u);
  EXPECT_FALSE(search.complete());
  EXPECT_TRUE(search.status().ok());
}

// Whether two tasks that add to a number under a lock that they give back
// between reading and writing lose one of the two.
bool LosesAnUpdate(Runtime& runtime) {
  const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
  int number = 0;
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 2; ++i) {
    tasks.push_back(runtime.Start("task", TaskKind::kProgram, [&] {
      mutex->Lock();
      const int read = number;
      mutex->Unlock();
      mutex->Lock();
      number = read + 1;
      mutex->Unlock();
    }));
  }
  for (const auto& task : tasks) task->Join();
  return number != 2;
}

// How many of the runs with so many preemptions lose an update.
int64_t LossCount(int32_t preemptions_max) {
  SimSearch search({.preemptions_max = preemptions_max});
  int64_t losses = 0;
  while (SimScheduler* scheduler = search.Next()) {
    const absl::Status status = RunWith(*scheduler, [&](Runtime& runtime) {
      losses += LosesAnUpdate(runtime) ? 1 : 0;
    });
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_TRUE(search.complete());
  return losses;
}

TEST(SimSearch, ALostUpdateNeedsOnePreemption) {
  EXPECT_EQ(LossCount(0), 0);
  EXPECT_GT(LossCount(1), 0);
}

TEST(SimSearch, EndsWithAnErrorWhenTheProgramIsNotTheSameTwice) {
  SimSearch search({.preemptions_max = 100});
  int runs = 0;
  while (SimScheduler* scheduler = search.Next()) {
    ASSERT_LT(runs, 10);
    const int count = runs++ == 0 ? 4 : 1;
    EXPECT_TRUE(RunWith(*scheduler, [&](Runtime& runtime) {
                  Letters(runtime, count);
                }).ok());
  }
  EXPECT_EQ(search.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(search.complete());
}

}  // namespace
}  // namespace muonshard
