#include "collectives/runtime/runtime_contract.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/rank_tasks.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using Tasks = std::vector<std::unique_ptr<Task>>;

void JoinAll(const Tasks& tasks) {
  for (const std::unique_ptr<Task>& task : tasks) task->Join();
}

TEST_P(RuntimeContract, AMutexLetsOneTaskIn) {
  OnRuntime([](Runtime& runtime) {
    constexpr int kTasks = 4;
    constexpr int kRounds = 20;
    const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
    int sum = 0;
    Tasks tasks;
    for (int i = 0; i < kTasks; ++i) {
      tasks.push_back(runtime.Start("adder", TaskKind::kProgram, [&] {
        for (int round = 0; round < kRounds; ++round) {
          MutexLock lock(*mutex);
          const int before = sum;
          runtime.Yield();
          sum = before + 1;
        }
      }));
    }
    JoinAll(tasks);
    EXPECT_EQ(sum, kTasks * kRounds);
  });
}

TEST_P(RuntimeContract, JoinWaitsForTheEndAndSeesWhatTheTaskDid) {
  OnRuntime([](Runtime& runtime) {
    int result = 0;
    const std::unique_ptr<Task> task =
        runtime.Start("worker", TaskKind::kProgram, [&] {
          for (int i = 0; i < 10; ++i) runtime.Yield();
          result = 7;
        });
    task->Join();
    EXPECT_EQ(result, 7);
  });
}

TEST_P(RuntimeContract, WhatATaskHeldIsGoneWhenItIsJoined) {
  OnRuntime([](Runtime& runtime) {
    auto held = std::make_shared<int>(0);
    const std::unique_ptr<Task> task = runtime.Start(
        "holder", TaskKind::kProgram, [held, &runtime] { runtime.Yield(); });
    task->Join();
    EXPECT_EQ(held.use_count(), 1);
  });
}

TEST_P(RuntimeContract, WhatATaskHeldGoesAtItsEndAndNotWhenItIsJoined) {
  OnRuntime([](Runtime& runtime) {
    EventSource source(runtime);
    const Event dropped = source.event();
    const std::unique_ptr<Task> task = runtime.Start(
        "holder", TaskKind::kProgram, [held = std::move(source)] {});
    EXPECT_EQ(dropped.Wait(absl::InfiniteFuture()).code(),
              absl::StatusCode::kAborted);
    task->Join();
  });
}

TEST_P(RuntimeContract, ATaskMayStartTasks) {
  OnRuntime([](Runtime& runtime) {
    int depth = 0;
    std::function<void(int)> nest = [&](int levels) {
      ++depth;
      if (levels == 0) return;
      runtime
          .Start("nested", TaskKind::kProgram,
                 [&, levels] { nest(levels - 1); })
          ->Join();
    };
    nest(5);
    EXPECT_EQ(depth, 6);
  });
}

TEST_P(RuntimeContract, ManyTasksRunAndEachRunsOnce) {
  OnRuntime([](Runtime& runtime) {
    std::vector<int> runs(100, 0);
    Tasks tasks;
    for (int& count : runs) {
      tasks.push_back(runtime.Start("one of many", TaskKind::kProgram,
                                    [&count] { ++count; }));
    }
    JoinAll(tasks);
    EXPECT_EQ(runs, std::vector<int>(runs.size(), 1));
  });
}

TEST_P(RuntimeContract, AWaitEndsAtItsDeadlineAndNotBefore) {
  OnRuntime([](Runtime& runtime) {
    const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
    const std::unique_ptr<Condition> condition = runtime.NewCondition();
    const absl::Time deadline = runtime.Now() + absl::Milliseconds(3);
    MutexLock lock(*mutex);
    while (condition->Wait(*mutex, deadline)) {
    }
    EXPECT_GE(runtime.Now(), deadline);
  });
}

TEST_P(RuntimeContract, AWaitWhoseDeadlineHasPassedLetsOthersInAndFails) {
  OnRuntime([](Runtime& runtime) {
    const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
    const std::unique_ptr<Condition> condition = runtime.NewCondition();
    bool other_was_in = false;
    std::unique_ptr<Task> other;
    {
      MutexLock lock(*mutex);
      other = runtime.Start("other", TaskKind::kProgram, [&] {
        MutexLock other_lock(*mutex);
        other_was_in = true;
      });
      while (!other_was_in) {
        EXPECT_FALSE(condition->Wait(*mutex, absl::InfinitePast()));
        EXPECT_FALSE(condition->Wait(*mutex, runtime.Now()));
      }
    }
    other->Join();
  });
}

TEST_P(RuntimeContract, ANotificationEndsAWaitWithAFarDeadline) {
  // The second deadline is beyond what a 64-bit count of nanoseconds holds.
  for (const absl::Duration far : {absl::Hours(1), absl::Hours(24 * 365 * 1000),
                                   absl::InfiniteDuration()}) {
    OnRuntime([&](Runtime& runtime) {
      const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
      const std::unique_ptr<Condition> condition = runtime.NewCondition();
      const absl::Time deadline = runtime.Now() + far;
      bool waiting = false;
      bool notified = false;
      const std::unique_ptr<Task> task =
          runtime.Start("waiter", TaskKind::kProgram, [&] {
            MutexLock lock(*mutex);
            waiting = true;
            while (!notified) {
              EXPECT_TRUE(condition->Wait(*mutex, deadline));
            }
          });
      for (bool seen = false; !seen; runtime.Yield()) {
        MutexLock lock(*mutex);
        seen = waiting;
      }
      {
        MutexLock lock(*mutex);
        notified = true;
        condition->NotifyOne();
      }
      task->Join();
    });
  }
}

TEST_P(RuntimeContract, OneNotificationPerTokenIsEnoughForAllWaiters) {
  OnRuntime([](Runtime& runtime) {
    constexpr int kWaiters = 5;
    const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
    const std::unique_ptr<Condition> condition = runtime.NewCondition();
    int tokens = 0;
    Tasks tasks;
    for (int i = 0; i < kWaiters; ++i) {
      tasks.push_back(runtime.Start("waiter", TaskKind::kProgram, [&] {
        MutexLock lock(*mutex);
        while (tokens == 0) {
          EXPECT_TRUE(condition->Wait(*mutex, absl::InfiniteFuture()));
        }
        --tokens;
      }));
    }
    for (int i = 0; i < kWaiters; ++i) {
      MutexLock lock(*mutex);
      ++tokens;
      condition->NotifyOne();
    }
    JoinAll(tasks);
    EXPECT_EQ(tokens, 0);
  });
}

TEST_P(RuntimeContract, NotifyAllWakesAll) {
  OnRuntime([](Runtime& runtime) {
    constexpr int kWaiters = 5;
    const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
    const std::unique_ptr<Condition> condition = runtime.NewCondition();
    int waiting = 0;
    bool open = false;
    Tasks tasks;
    for (int i = 0; i < kWaiters; ++i) {
      tasks.push_back(runtime.Start("waiter", TaskKind::kProgram, [&] {
        MutexLock lock(*mutex);
        ++waiting;
        while (!open) {
          EXPECT_TRUE(condition->Wait(*mutex, absl::InfiniteFuture()));
        }
      }));
    }
    for (bool all = false; !all; runtime.Yield()) {
      MutexLock lock(*mutex);
      all = waiting == kWaiters;
    }
    {
      MutexLock lock(*mutex);
      open = true;
    }
    condition->NotifyAll();
    JoinAll(tasks);
  });
}

TEST_P(RuntimeContract, NoNotificationIsLostBetweenUnlockAndWait) {
  OnRuntime([](Runtime& runtime) {
    constexpr int kRounds = 50;
    const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
    const std::unique_ptr<Condition> condition = runtime.NewCondition();
    int turn = 0;
    const auto play = [&](int parity) {
      for (int round = parity; round < kRounds; round += 2) {
        MutexLock lock(*mutex);
        while (turn != round) {
          EXPECT_TRUE(condition->Wait(*mutex, absl::InfiniteFuture()));
        }
        ++turn;
        condition->NotifyOne();
      }
    };
    const std::unique_ptr<Task> even =
        runtime.Start("even", TaskKind::kProgram, [&] { play(0); });
    const std::unique_ptr<Task> odd =
        runtime.Start("odd", TaskKind::kProgram, [&] { play(1); });
    even->Join();
    odd->Join();
    EXPECT_EQ(turn, kRounds);
  });
}

TEST_P(RuntimeContract, TheClockNeverGoesBack) {
  OnRuntime([](Runtime& runtime) {
    absl::Time before = runtime.Now();
    for (int i = 0; i < 100; ++i) {
      const absl::Time now = runtime.Now();
      EXPECT_GE(now, before);
      before = now;
    }
  });
}

TEST_P(RuntimeContract, TaskIdsAreDistinctStableAndNeverZero) {
  OnRuntime([](Runtime& runtime) {
    std::vector<uint64_t> ids(8, 0);
    Tasks tasks;
    for (uint64_t& id : ids) {
      tasks.push_back(runtime.Start("task", TaskKind::kProgram, [&] {
        id = runtime.CurrentTaskId();
        runtime.Yield();
        EXPECT_EQ(runtime.CurrentTaskId(), id);
      }));
    }
    JoinAll(tasks);
    ids.push_back(runtime.CurrentTaskId());
    const std::set<uint64_t> distinct(ids.begin(), ids.end());
    EXPECT_EQ(distinct.size(), ids.size());
    EXPECT_EQ(distinct.count(0), 0u);
  });
}

TEST_P(RuntimeContract, LogWritesOneLineWithItsSeverity) {
  for (const auto& [severity, word] :
       {std::pair{kLogInfo, "info"}, std::pair{kLogWarning, "warning"},
        std::pair{kLogError, "error"}}) {
    EXPECT_EXIT(
        {
          OnRuntime([severity = severity](Runtime& runtime) {
            runtime.Log(severity, "rank 3:\nlost");
          });
          std::exit(0);
        },
        ::testing::ExitedWithCode(0),
        absl::StrCat("muonshard ", word, ": .*rank 3: lost\n"));
  }
}

TEST_P(RuntimeContract, RunRanksReturnsWhatEachRankReturnedInRankOrder) {
  OnRuntime([](Runtime& runtime) {
    std::vector<int> order(4, 0);
    const std::vector<absl::Status> results =
        RunRanks(runtime, 4, [&](Rank rank) -> absl::Status {
          runtime.Yield();
          order[static_cast<size_t>(ToInt(rank))] = ToInt(rank);
          if (ToInt(rank) % 2 == 0) return absl::OkStatus();
          return absl::UnavailableError(absl::StrCat("rank ", ToInt(rank)));
        });
    EXPECT_EQ(results,
              (std::vector<absl::Status>{
                  absl::OkStatus(), absl::UnavailableError("rank 1"),
                  absl::OkStatus(), absl::UnavailableError("rank 3")}));
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
    EXPECT_TRUE(RunRanks(runtime, 0, [](Rank) {
                  return absl::InternalError("no rank to run");
                }).empty());
  });
}

}  // namespace
}  // namespace muonshard
