#include "collectives/runtime/sim_runtime.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/stream.h"
#include "gtest/gtest.h"

namespace muonshard {
namespace {

constexpr uint64_t kSeeds = 200;

using Tasks = std::vector<std::unique_ptr<Task>>;

struct Trace {
  uint64_t hash;
  uint64_t choice_count;
  bool operator==(const Trace&) const = default;
};

Trace RunWithSeed(uint64_t seed, const std::function<void(Runtime&)>& program) {
  const std::unique_ptr<SimRuntime> runtime =
      SimRuntime::Create({.seed = seed});
  const absl::Status status = runtime->Run([&] { program(*runtime); });
  EXPECT_TRUE(status.ok()) << "seed " << seed << ": " << status;
  return {runtime->trace_hash(), runtime->choice_count()};
}

// Uses every call of the runtime, with tasks, timers, events and streams.
void Mixture(Runtime& runtime) {
  const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
  const std::unique_ptr<Condition> condition = runtime.NewCondition();
  Stream stream(runtime, "stream");
  EventSource source(runtime);
  stream.WaitFor(source.event());
  int arrived = 0;
  Tasks tasks;
  for (int i = 0; i < 4; ++i) {
    tasks.push_back(runtime.Start("task", TaskKind::kProgram, [&, i] {
      const absl::Time deadline = runtime.Now() + absl::Milliseconds(i);
      stream.Enqueue([](absl::Status upstream) { return upstream; });
      MutexLock lock(*mutex);
      condition->Wait(*mutex, deadline);
      ++arrived;
      condition->NotifyOne();
      while (arrived < 4) condition->Wait(*mutex, absl::InfiniteFuture());
      condition->NotifyAll();
    }));
  }
  runtime.Yield();
  source.Complete(absl::OkStatus());
  for (const auto& task : tasks) task->Join();
  EXPECT_TRUE(stream.Synchronize(absl::InfiniteFuture()).ok());
}

TEST(SimRuntime, TheSameSeedGivesTheSameTrace) {
  std::vector<Trace> first;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    first.push_back(RunWithSeed(seed, &Mixture));
  }
  // Other addresses than in the first round.
  const std::vector<std::string> garbage(1000, std::string(100, 'x'));
  for (uint64_t seed = kSeeds; seed-- > 0;) {
    EXPECT_EQ(RunWithSeed(seed, &Mixture), first[seed]) << seed;
  }
}

TEST(SimRuntime, DifferentSeedsGiveDifferentTraces) {
  std::set<uint64_t> hashes;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    hashes.insert(RunWithSeed(seed, &Mixture).hash);
  }
  // With dozens of choices a run, two equal runs would be a wonder.
  EXPECT_EQ(hashes.size(), kSeeds);
}

TEST(SimRuntime, TheTraceCountsTime) {
  const auto wait = [](absl::Duration length) {
    return RunWithSeed(0, [&](Runtime& runtime) {
      const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
      const std::unique_ptr<Condition> condition = runtime.NewCondition();
      MutexLock lock(*mutex);
      condition->Wait(*mutex, runtime.Now() + length);
    });
  };
  const Trace one = wait(absl::Seconds(1));
  const Trace two = wait(absl::Seconds(2));
  EXPECT_EQ(one.choice_count, two.choice_count);
  EXPECT_NE(one.hash, two.hash);
}

TEST(SimRuntime, EveryOrderOfThreeRacingTasksIsSeen) {
  std::set<std::string> orders;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    RunWithSeed(seed, [&](Runtime& runtime) {
      std::string order;
      Tasks tasks;
      for (const char name : {'a', 'b', 'c'}) {
        tasks.push_back(runtime.Start("racer", TaskKind::kProgram,
                                      [&order, name] { order += name; }));
      }
      for (const auto& task : tasks) task->Join();
      orders.insert(order);
    });
  }
  EXPECT_EQ(orders,
            (std::set<std::string>{"abc", "acb", "bac", "bca", "cab", "cba"}));
}

TEST(SimRuntime, ANotificationMayReachAnyWaiterAndNotOnlyTheFirst) {
  std::set<size_t> reached;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    RunWithSeed(seed, [&](Runtime& runtime) {
      const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
      const std::unique_ptr<Condition> condition = runtime.NewCondition();
      size_t waiting = 0;
      bool notified = false;
      Tasks tasks;
      for (int i = 0; i < 3; ++i) {
        tasks.push_back(runtime.Start("waiter", TaskKind::kProgram, [&] {
          MutexLock lock(*mutex);
          const size_t place = waiting++;
          condition->Wait(*mutex, absl::InfiniteFuture());
          if (!std::exchange(notified, true)) reached.insert(place);
          condition->NotifyOne();
        }));
      }
      for (bool all = false; !all; runtime.Yield()) {
        MutexLock lock(*mutex);
        all = waiting == 3;
      }
      condition->NotifyOne();
      for (const auto& task : tasks) task->Join();
    });
  }
  EXPECT_EQ(reached, (std::set<size_t>{0, 1, 2}));
}

TEST(SimRuntime, ALostUpdateIsFoundBySomeSeedAndNotByAll) {
  std::set<int> sums;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    RunWithSeed(seed, [&](Runtime& runtime) {
      int sum = 0;
      Tasks tasks;
      for (int i = 0; i < 2; ++i) {
        tasks.push_back(runtime.Start("adder", TaskKind::kProgram, [&] {
          const int before = sum;
          runtime.Now();
          sum = before + 1;
        }));
      }
      for (const auto& task : tasks) task->Join();
      sums.insert(sum);
    });
  }
  EXPECT_EQ(sums, (std::set<int>{1, 2}));
}

TEST(SimRuntime, TheClockJumpsToTheNextDeadline) {
  RunWithSeed(0, [](Runtime& runtime) {
    const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
    const std::unique_ptr<Condition> condition = runtime.NewCondition();
    const absl::Time start = runtime.Now();
    // A century would outlast any test on a real clock.
    const std::vector<absl::Duration> lengths = {
        absl::Hours(24 * 365 * 100), absl::Nanoseconds(1), absl::Seconds(5)};
    std::vector<absl::Duration> woken;
    Tasks tasks;
    for (const absl::Duration length : lengths) {
      tasks.push_back(runtime.Start("sleeper", TaskKind::kProgram, [&, length] {
        MutexLock lock(*mutex);
        EXPECT_FALSE(condition->Wait(*mutex, start + length));
        EXPECT_EQ(runtime.Now(), start + length);
        woken.push_back(length);
      }));
    }
    for (const auto& task : tasks) task->Join();
    EXPECT_EQ(woken, (std::vector<absl::Duration>{lengths[1], lengths[2],
                                                  lengths[0]}));
  });
}

TEST(SimRuntime, TheClockStandsStillWhileATaskCanRun) {
  RunWithSeed(0, [](Runtime& runtime) {
    const absl::Time start = runtime.Now();
    for (int i = 0; i < 100; ++i) runtime.Yield();
    EXPECT_EQ(runtime.Now(), start);
  });
}

TEST(SimRuntime, AWaiterThatWasNotifiedHasNoTimerLeft) {
  RunWithSeed(0, [](Runtime& runtime) {
    EventSource source(runtime);
    const absl::Time start = runtime.Now();
    const std::unique_ptr<Task> waiter = runtime.Start(
        "waiter", TaskKind::kProgram,
        [&] { EXPECT_TRUE(source.event().Wait(start + absl::Hours(1)).ok()); });
    for (int i = 0; i < 20; ++i) runtime.Yield();
    source.Complete(absl::OkStatus());
    waiter->Join();
    EventSource never(runtime);
    EXPECT_FALSE(never.event().Wait(start + absl::Hours(2)).ok());
    EXPECT_EQ(runtime.Now(), start + absl::Hours(2));
  });
}

TEST(SimRuntime, ThousandsOfTasksLiveAtOnce) {
#ifdef __SANITIZE_THREAD__
  // Each switch costs the thread sanitizer time in proportion to the tasks.
  constexpr int kTasks = 1000;
#else
  constexpr int kTasks = 5000;
#endif
  RunWithSeed(1, [&](Runtime& runtime) {
    const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
    const std::unique_ptr<Condition> condition = runtime.NewCondition();
    int arrived = 0;
    Tasks tasks;
    for (int i = 0; i < kTasks; ++i) {
      tasks.push_back(runtime.Start("one of many", TaskKind::kProgram, [&] {
        MutexLock lock(*mutex);
        if (++arrived == kTasks) condition->NotifyAll();
        while (arrived < kTasks) {
          condition->Wait(*mutex, absl::InfiniteFuture());
        }
      }));
    }
    for (const auto& task : tasks) task->Join();
    EXPECT_EQ(arrived, kTasks);
  });
}

TEST(SimRuntime, ASecondRunGoesOnWithClockAndTrace) {
  const std::unique_ptr<SimRuntime> runtime = SimRuntime::Create({});
  absl::Time end;
  ASSERT_TRUE(runtime
                  ->Run([&] {
                    EventSource never(*runtime);
                    end = runtime->Now() + absl::Seconds(1);
                    EXPECT_FALSE(never.event().Wait(end).ok());
                  })
                  .ok());
  const uint64_t hash = runtime->trace_hash();
  const uint64_t choice_count = runtime->choice_count();
  ASSERT_TRUE(runtime->Run([&] { EXPECT_EQ(runtime->Now(), end); }).ok());
  EXPECT_NE(runtime->trace_hash(), hash);
  EXPECT_GT(runtime->choice_count(), choice_count);
}

TEST(SimRuntime, RunInsideRunIsRefused) {
  const std::unique_ptr<SimRuntime> runtime = SimRuntime::Create({});
  absl::Status inner;
  EXPECT_TRUE(runtime->Run([&] { inner = runtime->Run([] { FAIL(); }); }).ok());
  EXPECT_EQ(inner.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SimRuntime, ATaskMayUseTheWholeOfItsStack) {
  const std::unique_ptr<SimRuntime> runtime =
      SimRuntime::Create({.stack_bytes = size_t{8} << 20});
  EXPECT_TRUE(runtime
                  ->Run([] {
                    volatile char bytes[size_t{7} << 20];
                    bytes[0] = 1;
                    EXPECT_EQ(bytes[0], 1);
                  })
                  .ok());
}

}  // namespace
}  // namespace muonshard
