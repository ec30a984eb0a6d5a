#include "collectives/runtime/sim_trace.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/runtime/sim_runtime.h"
#include "collectives/runtime/sim_scheduler.h"
#include "gtest/gtest.h"

namespace muonshard {
namespace {

constexpr std::array<uint64_t, 3> kTasks = {2, 5, 9};

// Tasks that meet at a mutex and a condition, and wake one of several.
void Meeting(Runtime& runtime) {
  const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
  const std::unique_ptr<Condition> condition = runtime.NewCondition();
  int arrived = 0;
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 5; ++i) {
    tasks.push_back(runtime.Start("task", TaskKind::kProgram, [&] {
      runtime.Yield();
      MutexLock lock(*mutex);
      ++arrived;
      condition->NotifyOne();
      while (arrived < 5) {
        condition->Wait(*mutex, runtime.Now() + absl::Seconds(1));
      }
      condition->NotifyOne();
    }));
  }
  for (const auto& task : tasks) task->Join();
}

uint64_t HashOfRun(SimScheduler& scheduler) {
  const auto runtime = SimRuntime::Create({.scheduler = &scheduler});
  const absl::Status status = runtime->Run([&] { Meeting(*runtime); });
  EXPECT_TRUE(status.ok()) << status;
  return runtime->trace_hash();
}

TEST(SimTrace, AReplayRepeatsTheRunOfEveryScheduler) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<std::unique_ptr<SimScheduler>> schedulers;
    schedulers.push_back(NewRandomScheduler(seed));
    schedulers.push_back(NewPctScheduler({.seed = seed, .depth = 4}));
    schedulers.push_back(NewStarvingScheduler(seed));
    for (const auto& scheduler : schedulers) {
      SimTraceRecorder recorder(*scheduler);
      const uint64_t hash = HashOfRun(recorder);
      SimTraceReplay replay(recorder.trace());
      EXPECT_EQ(HashOfRun(replay), hash);
      EXPECT_EQ(replay.followed_count(), recorder.trace().size());
    }
  }
}

TEST(SimTrace, OfTheDefaultScheduleIsEmpty) {
  SimTraceReplay scheduler({});
  SimTraceRecorder recorder(scheduler);
  HashOfRun(recorder);
  EXPECT_TRUE(recorder.trace().empty());
  EXPECT_GT(recorder.choice_count(), 0u);
}

TEST(SimTrace, WithoutSomeOfItsDeviationsIsOfAnotherRunThatEnds) {
  const auto scheduler = NewRandomScheduler(4);
  SimTraceRecorder recorder(*scheduler);
  const uint64_t hash = HashOfRun(recorder);
  ASSERT_GT(recorder.trace().size(), 10u);
  for (size_t dropped = 0; dropped < recorder.trace().size(); ++dropped) {
    SimTrace trace = recorder.trace();
    trace.erase(trace.begin() + static_cast<ptrdiff_t>(dropped));
    SimTraceReplay replay(trace);
    EXPECT_NE(HashOfRun(replay), hash);
  }
}

TEST(SimTrace, ATaskThatCannotRunIsNotFollowed) {
  SimTraceReplay replay({{.choice = 1, .task = 7}, {.choice = 2, .task = 9}});
  const SimChoice choice = {
      .call = SimCall::kLock, .candidates = kTasks, .caller = 1};
  EXPECT_EQ(replay.Choose(choice), 1u);
  EXPECT_EQ(replay.Choose(choice), 1u);
  EXPECT_EQ(replay.followed_count(), 0u);
  EXPECT_EQ(replay.Choose(choice), 2u);
  EXPECT_EQ(replay.followed_count(), 1u);
}

TEST(SimTrace, AProgramThatGoesRoundInCirclesIsDroppedAndReported) {
  SimTraceReplay scheduler({});
  const auto runtime =
      SimRuntime::Create({.scheduler = &scheduler, .choice_count_max = 1000});
  const absl::Status status = runtime->Run([&] {
    for (;;) runtime->Yield();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("no end after 1000 choices"),
            absl::string_view::npos)
      << status;
}

}  // namespace
}  // namespace muonshard
