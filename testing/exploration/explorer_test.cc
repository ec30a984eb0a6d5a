#include "testing/exploration/explorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/sim_runtime.h"
#include "collectives/runtime/sim_scheduler.h"
#include "collectives/runtime/sim_trace.h"
#include "testing/exploration/seeded_schedule.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// What goes wrong when two tasks read a number before either writes it.
enum class Fault { kNone, kLostUpdate, kCrash, kEndless, kSilent };

void SpinOnce() {
  static volatile int turn = 0;
  turn = 1 - turn;
}

// Four tasks that each add to a number some times.
class Adding final : public Experiment {
 public:
  explicit Adding(Fault fault) : fault_(fault) {}

  ExploredRun Run(const ExploredSchedule& schedule, uint64_t) const override {
    const auto runtime =
        SimRuntime::Create({.scheduler = &schedule.scheduler,
                            .choice_count_max = schedule.choice_count_max});
    int number = 0;
    const absl::Status ended =
        runtime->Run([&] { number = AddInTasks(*runtime); });
    ExploredRun run = {.result = ended,
                       .trace_hash = runtime->trace_hash(),
                       .choice_count = runtime->choice_count()};
    if (run.result.ok() && number != kTasks * kTimes) {
      run.result = absl::DataLossError(
          absl::StrCat("want ", kTasks * kTimes, ", got ", number));
    }
    return run;
  }

 private:
  static constexpr int kTasks = 4;
  static constexpr int kTimes = 5;

  int AddInTasks(Runtime& runtime) const {
    const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
    int number = 0;
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < kTasks; ++i) {
      tasks.push_back(runtime.Start("adds", TaskKind::kProgram, [&] {
        for (int time = 0; time < kTimes; ++time) Add(runtime, *mutex, number);
      }));
    }
    for (const auto& task : tasks) task->Join();
    return number;
  }

  void Add(Runtime& runtime, Mutex& mutex, int& number) const {
    MutexLock lock(mutex);
    const int read = number;
    if (fault_ != Fault::kNone) {
      mutex.Unlock();
      mutex.Lock();
    }
    if (number != read && fault_ == Fault::kCrash) raise(SIGKILL);
    while (number != read && fault_ == Fault::kEndless) runtime.Yield();
    // No choice, so that nobody counts these turns.
    while (number != read && fault_ == Fault::kSilent) SpinOnce();
    number = read + 1;
  }

  const Fault fault_;
};

// That no deviation can be left out of a failing run's trace.
void ExpectShortest(Fault fault, const RecordedRun& run) {
  EXPECT_LE(run.trace->size(), 3u);
  for (size_t i = 0; i < run.trace->size(); ++i) {
    SimTrace shorter = *run.trace;
    shorter.erase(shorter.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_THAT(
        Replay(Adding(fault), {.seed = run.seed, .trace = shorter}).result,
        IsOk());
  }
}

ExploreSummary Search(Fault fault, const ExploreOptions& options) {
  absl::StatusOr<ExploreSummary> summary = Explore(Adding(fault), options);
  EXPECT_THAT(summary, IsOk());
  return summary.value_or(ExploreSummary());
}

TEST(Explorer, WhatIsRightHoldsUnderEverySchedule) {
  const ExploreSummary summary =
      Search(Fault::kNone, {.seed_count = 300, .processes = 2});
  EXPECT_THAT(summary.failures, IsEmpty());
  EXPECT_EQ(summary.run_count, 300);
  EXPECT_GT(summary.distinct_count, 250);
  EXPECT_GT(summary.choice_count_min, 20u);
  EXPECT_LE(summary.choice_count_min, summary.choice_count_max);
}

TEST(Explorer, TheSameSeedsGiveTheSameRunsInAnyNumberOfProcesses) {
  const auto hash = [](uint64_t first_seed, int32_t processes) {
    return Search(Fault::kNone, {.first_seed = first_seed,
                                 .seed_count = 100,
                                 .processes = processes})
        .hash;
  };
  EXPECT_EQ(hash(1, 1), hash(1, 1));
  EXPECT_EQ(hash(1, 1), hash(1, 3));
  EXPECT_NE(hash(1, 1), hash(2, 1));
}

TEST(Explorer, AFaultIsFoundReplayedAndShrunk) {
  const ExploreSummary summary =
      Search(Fault::kLostUpdate,
             {.seed_count = 1000, .processes = 2, .failure_count_max = 3});
  ASSERT_THAT(summary.failures, SizeIs(3));
  EXPECT_LT(summary.run_count, 1000);
  for (const RecordedRun& failed : summary.failures) {
    EXPECT_EQ(failed.result.code(), absl::StatusCode::kDataLoss);
    for (int time = 0; time < 3; ++time) {
      const RecordedRun again = Replay(Adding(Fault::kLostUpdate), failed);
      EXPECT_EQ(again.trace_hash, failed.trace_hash);
      EXPECT_EQ(again.result, failed.result);
      EXPECT_EQ(again.trace, failed.trace);
    }
    const RecordedRun shortest =
        Shrink(Adding(Fault::kLostUpdate), failed, 10'000);
    EXPECT_EQ(shortest.result.code(), absl::StatusCode::kDataLoss);
    ExpectShortest(Fault::kLostUpdate, shortest);
    EXPECT_EQ(Replay(Adding(Fault::kLostUpdate), shortest).trace_hash,
              shortest.trace_hash);
    EXPECT_THAT(Replay(Adding(Fault::kNone), shortest).result, IsOk());
  }
}

TEST(Explorer, EveryKindOfScheduleFindsTheFault) {
  std::set<std::string> kinds;
  const ExploreSummary summary =
      Search(Fault::kLostUpdate, {.seed_count = 200, .failure_count_max = 200});
  for (const RecordedRun& failed : summary.failures) {
    kinds.insert(ScheduleKindName(failed.seed));
  }
  EXPECT_THAT(kinds, SizeIs(kScheduleKinds));
}

TEST(Explorer, ACrashIsAFailureWithATraceThatCrashesAgain) {
  const ExploreSummary summary =
      Search(Fault::kCrash,
             {.seed_count = 200, .processes = 2, .failure_count_max = 4});
  ASSERT_THAT(summary.failures, SizeIs(4));
  for (const RecordedRun& failed : summary.failures) {
    EXPECT_THAT(failed.result,
                StatusIs(absl::StatusCode::kInternal, "signal 9"));
    ASSERT_TRUE(failed.trace.has_value());
    EXPECT_THAT(Replay(Adding(Fault::kCrash), failed).result,
                StatusIs(absl::StatusCode::kInternal, "signal 9"));
    ExpectShortest(Fault::kCrash,
                   Shrink(Adding(Fault::kCrash), failed, 10'000));
  }
}

TEST(Explorer, ARunWithoutAnEndIsAFailure) {
  const ExploreSummary summary =
      Search(Fault::kEndless, {.seed_count = 100, .failure_count_max = 1});
  ASSERT_THAT(summary.failures, Not(IsEmpty()));
  EXPECT_THAT(summary.failures[0].result,
              StatusIs(absl::StatusCode::kFailedPrecondition, "no end after"));
  const RecordedRun again =
      Replay(Adding(Fault::kEndless), summary.failures[0]);
  EXPECT_EQ(again.result, summary.failures[0].result);
  EXPECT_EQ(again.trace_hash, summary.failures[0].trace_hash);
}

TEST(Explorer, ARunThatMakesNoMoreChoicesIsKilledReplayedAndShrunk) {
  const absl::Duration limit = absl::Milliseconds(500);
  const ExploreSummary summary = Search(
      Fault::kSilent, {.seed_count = 100, .processes = 2, .run_limit = limit});
  ASSERT_THAT(summary.failures, SizeIs(1));
  const RecordedRun& failed = summary.failures[0];
  EXPECT_THAT(failed.result, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                      "did not end for 500ms"));
  ASSERT_TRUE(failed.trace.has_value());
  const RecordedRun again = Replay(Adding(Fault::kSilent), failed, limit);
  EXPECT_EQ(again.result, failed.result);
  EXPECT_EQ(again.trace, failed.trace);
  const RecordedRun shortest =
      Shrink(Adding(Fault::kSilent), failed, 10'000, limit);
  EXPECT_EQ(shortest.result, failed.result);
  EXPECT_LT(shortest.trace->size(), failed.trace->size());
}

TEST(Explorer, ShrinkingWaitsForFewRunsThatHaveToBeKilled) {
  // Hangs if any choice was not the default one.
  class HangingIfDisturbed final : public Experiment {
   public:
    ExploredRun Run(const ExploredSchedule& schedule, uint64_t) const override {
      const std::vector<uint64_t> tasks = {0, 1};
      const SimChoice choice = {
          .call = SimCall::kLock, .candidates = tasks, .caller = 0};
      bool disturbed = false;
      for (int i = 0; i < 1024; ++i) {
        disturbed |= schedule.scheduler.Choose(choice) != 0;
      }
      while (disturbed) SpinOnce();
      return {};
    }
  };
  SimTrace trace;
  for (uint64_t i = 0; i < 1024; ++i) trace.push_back({.choice = i, .task = 1});
  const RecordedRun shortest =
      Shrink(HangingIfDisturbed(),
             {.result = absl::DeadlineExceededError("killed"), .trace = trace},
             10'000, absl::Milliseconds(500));
  // Eight of them, each of which halves the trace.
  EXPECT_THAT(*shortest.trace, SizeIs(1024 / 256));
}

TEST(Explorer, AnExperimentThatHangsUnderTheDefaultScheduleIsAFailure) {
  class Hanging final : public Experiment {
   public:
    ExploredRun Run(const ExploredSchedule&, uint64_t) const override {
      for (;;) SpinOnce();
    }
  };
  const absl::StatusOr<ExploreSummary> summary = Explore(
      Hanging(), {.seed_count = 10, .run_limit = absl::Milliseconds(500)});
  ASSERT_THAT(summary, IsOk());
  ASSERT_THAT(summary->failures, SizeIs(1));
  EXPECT_EQ(summary->failures[0].seed, 0u);
  EXPECT_EQ(summary->failures[0].result.code(),
            absl::StatusCode::kDeadlineExceeded);
}

// Makes more choices by one seed than by another, and fails unless all are the
// default ones.
class Undisturbed final : public Experiment {
 public:
  explicit Undisturbed(bool crashes) : crashes_(crashes) {}

  static uint64_t Length(uint64_t seed) { return 100 * (1 + seed % 7); }

  ExploredRun Run(const ExploredSchedule& schedule,
                  uint64_t seed) const override {
    const std::vector<uint64_t> tasks = {0, 1};
    ExploredRun run;
    for (; run.choice_count < Length(seed); ++run.choice_count) {
      const size_t chosen = schedule.scheduler.Choose(
          {.call = SimCall::kLock, .candidates = tasks, .caller = 0});
      run.trace_hash = MixBits(run.trace_hash + chosen);
      if (chosen != 0) run.result = absl::DataLossError("disturbed");
    }
    if (!run.result.ok() && crashes_) raise(SIGKILL);
    return run;
  }
  bool varies() const override { return true; }

 private:
  const bool crashes_;
};

TEST(Explorer, AnExperimentThatVariesIsDisturbedOverTheWholeLengthOfEachRun) {
  for (const bool crashes : {false, true}) {
    const Undisturbed experiment(crashes);
    const absl::StatusOr<ExploreSummary> summary =
        Explore(experiment, {.seed_count = 50, .failure_count_max = 50});
    ASSERT_THAT(summary, IsOk());
    int of_own_length = 0;
    for (const RecordedRun& failed : summary->failures) {
      const bool learnt = DependsOnLength(failed.seed);
      EXPECT_EQ(failed.length, Undisturbed::Length(learnt ? failed.seed : 0));
      if (learnt) ++of_own_length;
      // From its seed alone, and from its trace.
      for (const auto& trace : {std::optional<SimTrace>(), failed.trace}) {
        const RecordedRun again = Replay(
            experiment,
            {.seed = failed.seed, .length = failed.length, .trace = trace});
        EXPECT_EQ(again.trace, failed.trace);
        EXPECT_EQ(again.trace_hash, failed.trace_hash);
      }
    }
    EXPECT_GT(of_own_length, 10);
  }
}

TEST(Explorer, AVariedRunThatFailsByDefaultIsTheRunOfItsSeed) {
  // Does not hold with seed 6, a pct schedule.
  class Wrong final : public Experiment {
   public:
    ExploredRun Run(const ExploredSchedule& schedule,
                    uint64_t seed) const override {
      ExploredRun run = Undisturbed(false).Run(schedule, seed);
      run.result = seed == 6 ? absl::InternalError("wrong") : absl::OkStatus();
      return run;
    }
    bool varies() const override { return true; }
  };
  const absl::StatusOr<ExploreSummary> summary =
      Explore(Wrong(), {.seed_count = 10});
  ASSERT_THAT(summary, IsOk());
  ASSERT_THAT(summary->failures, SizeIs(1));
  EXPECT_EQ(summary->failures[0].seed, 6u);
  EXPECT_EQ(summary->failures[0].trace, SimTrace());
}

TEST(Explorer, ShrinkingKeepsToItsBudget) {
  const ExploreSummary summary =
      Search(Fault::kLostUpdate, {.seed_count = 100, .failure_count_max = 1});
  ASSERT_THAT(summary.failures, Not(IsEmpty()));
  const RecordedRun& failed = summary.failures[0];
  EXPECT_EQ(Shrink(Adding(Fault::kLostUpdate), failed, 0).trace, failed.trace);
}

TEST(Explorer, RefusesABudgetOfNothing) {
  const auto refused = [](const ExploreOptions& options) {
    return Explore(Adding(Fault::kNone), options).status();
  };
  EXPECT_THAT(refused({.seed_count = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "seeds: want 1 or more, got 0"));
  EXPECT_THAT(refused({.first_seed = ~uint64_t{0}, .seed_count = 2}),
              StatusIs(absl::StatusCode::kInvalidArgument, "first seed"));
  EXPECT_THAT(refused({.seed_count = 1, .processes = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "processes: want 1 or more, got 0"));
  EXPECT_THAT(refused({.seed_count = 1, .failure_count_max = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "failures: want 1 or more, got 0"));
  EXPECT_THAT(
      refused({.seed_count = 1, .run_limit = absl::ZeroDuration()}),
      StatusIs(absl::StatusCode::kInvalidArgument, "run limit: want more"));
}

}  // namespace
}  // namespace muonshard::testing
