#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/sim_runtime.h"
#include "collectives/runtime/stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muonshard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Time kForever = absl::InfiniteFuture();
constexpr uint64_t kSeeds = 100;

// The message of the error with which the run fails, or "" if it does not.
std::string ErrorOfRun(uint64_t seed,
                       const std::function<void(Runtime&)>& program) {
  const std::unique_ptr<SimRuntime> runtime =
      SimRuntime::Create({.seed = seed});
  const absl::Status status = runtime->Run([&] { program(*runtime); });
  if (!status.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  }
  return std::string(status.message());
}

TEST(SimDeadlock, AWaitForEverEndsAsExpiredAndIsReported) {
  const std::string error = ErrorOfRun(0, [](Runtime& runtime) {
    EventSource never(runtime);
    const std::unique_ptr<Task> task =
        runtime.Start("rank 1", TaskKind::kProgram, [&] {
          EXPECT_EQ(never.event().Wait(kForever).code(),
                    absl::StatusCode::kDeadlineExceeded);
        });
    task->Join();
  });
  EXPECT_THAT(error, AllOf(HasSubstr("deadlock at 0"),
                           HasSubstr("\"rank 1\" waits in condition"),
                           HasSubstr("\"main\" waits to join \"rank 1\"")));
}

TEST(SimDeadlock, TheReportNamesTheTime) {
  const std::string error = ErrorOfRun(0, [](Runtime& runtime) {
    EventSource never(runtime);
    EXPECT_FALSE(
        never.event().Wait(runtime.Now() + absl::Milliseconds(1500)).ok());
    EXPECT_FALSE(never.event().Wait(kForever).ok());
  });
  EXPECT_THAT(error, HasSubstr("deadlock at 1.5s"));
}

TEST(SimDeadlock, ALockOrderInversionIsFoundBySomeSeedAndNamesBothHolders) {
  uint64_t found = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string error = ErrorOfRun(seed, [](Runtime& runtime) {
      const std::unique_ptr<Mutex> one = runtime.NewMutex();
      const std::unique_ptr<Mutex> two = runtime.NewMutex();
      const auto lock_both = [&](Mutex& first, Mutex& second) {
        MutexLock first_lock(first);
        MutexLock second_lock(second);
      };
      const std::unique_ptr<Task> a = runtime.Start(
          "a", TaskKind::kProgram, [&] { lock_both(*one, *two); });
      const std::unique_ptr<Task> b = runtime.Start(
          "b", TaskKind::kProgram, [&] { lock_both(*two, *one); });
      a->Join();
      b->Join();
    });
    if (error.empty()) continue;
    ++found;
    EXPECT_THAT(error,
                AllOf(HasSubstr("\"a\" waits for mutex 2, held by \"b\""),
                      HasSubstr("\"b\" waits for mutex 1, held by \"a\"")));
  }
  EXPECT_GT(found, 0u);
  EXPECT_LT(found, kSeeds);
}

TEST(SimDeadlock, LockingTwiceIsADeadlockWithOneself) {
  const std::string error = ErrorOfRun(0, [](Runtime& runtime) {
    const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
    MutexLock lock(*mutex);
    MutexLock again(*mutex);
  });
  EXPECT_THAT(error, HasSubstr("\"main\" waits for mutex 1, held by \"main\""));
}

TEST(SimDeadlock, AServiceThatWaitsForWorkIsNone) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(
        ErrorOfRun(
            seed,
            [](Runtime& runtime) {
              Stream stream(runtime, "stream");
              stream.Enqueue([](absl::Status upstream) { return upstream; });
              EventSource never(runtime);
              EXPECT_FALSE(
                  never.event().Wait(runtime.Now() + absl::Seconds(1)).ok());
            }),
        "");
  }
}

TEST(SimDeadlock, AStreamHeldForEverIsReportedAndStillDestroyed) {
  bool ran = false;
  const std::string error = ErrorOfRun(0, [&](Runtime& runtime) {
    EventSource never(runtime);
    Stream stream(runtime, "stream");
    stream.WaitFor(never.event());
    stream.Enqueue([&](absl::Status upstream) {
      EXPECT_EQ(upstream.code(), absl::StatusCode::kDeadlineExceeded);
      ran = true;
      return upstream;
    });
    EXPECT_EQ(stream.Synchronize(kForever).code(),
              absl::StatusCode::kDeadlineExceeded);
    EXPECT_FALSE(ran);
  });
  EXPECT_TRUE(ran);
  EXPECT_THAT(error, AllOf(HasSubstr("\"main\" waits in condition"),
                           HasSubstr("service \"stream\" waits in condition")));
}

// What a task needs that is dropped where it stands: nothing on the stack of
// such a task is destroyed.
struct Outliving {
  std::unique_ptr<SimRuntime> runtime = SimRuntime::Create({});
  std::unique_ptr<Mutex> mutex;
  std::unique_ptr<Condition> condition;
  int waits = 0;

  void WaitAgainAndAgain(absl::Duration length) {
    mutex = runtime->NewMutex();
    condition = runtime->NewCondition();
    mutex->Lock();
    for (;;) {
      EXPECT_FALSE(condition->Wait(*mutex, runtime->Now() + length));
      ++waits;
    }
  }
};

TEST(SimDeadlock, AProgramThatWaitsAgainAndAgainIsGivenUp) {
  Outliving outliving;
  const absl::Status status = outliving.runtime->Run(
      [&] { outliving.WaitAgainAndAgain(absl::InfiniteDuration()); });
  EXPECT_GT(outliving.waits, 1);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("given up after"),
                    HasSubstr("a task never ended: \"main\" waits in")));
}

TEST(SimDeadlock, AServiceThatOutlivesTheProgramsIsAnError) {
  Outliving outliving;
  const absl::Status status = outliving.runtime->Run([&] {
    outliving.runtime->Start("heartbeat", TaskKind::kService, [&outliving] {
      outliving.WaitAgainAndAgain(absl::Seconds(1));
    });
  });
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("\"heartbeat\" was destroyed before it was joined"),
            HasSubstr("a task never ended: service \"heartbeat\" waits in"),
            Not(HasSubstr("deadlock"))));
}

TEST(SimDeadlock, UnlockingWhatAnotherTaskHoldsIsAnError) {
  const std::string error = ErrorOfRun(0, [](Runtime& runtime) {
    const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
    mutex->Lock();
    runtime.Start("thief", TaskKind::kProgram, [&] { mutex->Unlock(); })
        ->Join();
    mutex->Unlock();
  });
  EXPECT_EQ(error, "\"thief\" unlocked mutex 1, which it did not hold");
}

TEST(SimDeadlock, ARunAfterADeadlockStartsClean) {
  const std::unique_ptr<SimRuntime> runtime = SimRuntime::Create({});
  EXPECT_FALSE(runtime
                   ->Run([&] {
                     EventSource never(*runtime);
                     EXPECT_FALSE(never.event().Wait(kForever).ok());
                   })
                   .ok());
  EXPECT_TRUE(
      runtime->Run([&] { EXPECT_GT(runtime->CurrentTaskId(), 1u); }).ok());
}

}  // namespace
}  // namespace muonshard
