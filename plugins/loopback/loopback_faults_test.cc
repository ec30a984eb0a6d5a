// Every fault but death, at every operation of a program: who is at fault is
// said, nothing hangs and nothing is left over.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/loopback/fault_run_test.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Lt;
using ::testing::Matcher;
using ::testing::Not;

// With two ranks in each half, so that every operation has a peer.
constexpr int32_t kSize = 4;

class LoopbackFaultsTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  // Runs the program with the fault "KIND rank=R at=N" and `rest` for every
  // rank and operation, and checks what is so after all faults.
  static void ForEachPlace(
      const std::string& kind, const std::string& rest,
      const std::function<void(const FaultRun& run, int32_t rank,
                               uint64_t operation)>& check) {
    for (uint64_t operation = 0; operation < kOperationCount; ++operation) {
      for (int32_t rank = 0; rank < kSize; ++rank) {
        const std::string fault =
            absl::StrCat(kind, " rank=", rank, " at=", operation, rest);
        SCOPED_TRACE(fault);
        const FaultRun run =
            RunWithFaults({.runtime = GetParam(),
                           .size = kSize,
                           .faults = fault,
                           .checks = operation % 3 == 0,
                           .small_bytes = operation % 2 == 0 ? 0 : 1024});
        EXPECT_THAT(run.report,
                    AllOf(HasSubstr(absl::StrCat("\"", fault, "\": reached")),
                          HasSubstr("live works: 0\n"),
                          HasSubstr("live communicators: 0\n")));
        check(run, rank, operation);
      }
    }
  }
};

// "rank 3" or "ranks 1, 3".
auto Names(int32_t rank) {
  return ContainsRegex(absl::StrCat("ranks? ([0-9]+, )*", rank, "([^0-9]|$)"));
}

TEST_P(LoopbackFaultsTest, ALateRankDelaysTheOthersAndNothingElse) {
  ForEachPlace(
      "late", " ns=500000000", [](const FaultRun& run, int32_t, uint64_t) {
        EXPECT_THAT(run.results, Each(IsOk()));
        EXPECT_THAT(run.durations, Each(AllOf(Ge(absl::Milliseconds(500)),
                                              Lt(absl::Milliseconds(600)))));
      });
}

TEST_P(LoopbackFaultsTest, ARankTooLateIsNamedAtTheDeadlineAndToldLater) {
  ForEachPlace("late", " ns=1500000000",
               [](const FaultRun& run, int32_t late, uint64_t) {
                 for (int32_t rank = 0; rank < kSize; ++rank) {
                   const absl::Status& result = run.results[rank];
                   EXPECT_THAT(result, Not(IsOk()));
                   EXPECT_THAT(result.ToString(), Names(late));
                 }
                 EXPECT_THAT(run.durations, Each(Le(absl::Seconds(2))));
               });
}

TEST_P(LoopbackFaultsTest, ALostMessageIsMissedAtTheDeadline) {
  ForEachPlace("lose", "", [](const FaultRun& run, int32_t loser, uint64_t) {
    for (const absl::Status& result : run.results) {
      EXPECT_THAT(result, Not(IsOk()));
      EXPECT_THAT(result.ToString(), Names(loser));
    }
    EXPECT_THAT(run.durations, Each(Le(absl::Seconds(2))));
  });
}

TEST_P(LoopbackFaultsTest, ADamagedMessageIsTheErrorOfAllRanksAtOnce) {
  for (const auto& [kind, difference] : {std::pair("short", "bytes, got "),
                                         std::pair("corrupt", "want check")}) {
    ForEachPlace(kind, "", [&](const FaultRun& run, int32_t bad, uint64_t) {
      for (const absl::Status& result : run.results) {
        EXPECT_THAT(result.ToString(),
                    AllOf(HasSubstr("DATA_LOSS"), Names(bad),
                          HasSubstr("is damaged: "), HasSubstr(difference)));
      }
      EXPECT_THAT(run.durations, Each(Lt(absl::Seconds(1))));
    });
  }
}

TEST_P(LoopbackFaultsTest, ADuplicateIsDroppedAndCounted) {
  ForEachPlace("duplicate", "", [](const FaultRun& run, int32_t, uint64_t) {
    EXPECT_THAT(run.results, Each(IsOk()));
    EXPECT_THAT(run.report, HasSubstr("duplicates dropped: 1\n"));
  });
}

TEST_P(LoopbackFaultsTest, ACallWithoutMemoryHasSentNothing) {
  ForEachPlace(
      "memory", "", [](const FaultRun& run, int32_t poor, uint64_t operation) {
        for (int32_t rank = 0; rank < kSize; ++rank) {
          const absl::Status& result = run.results[rank];
          if (rank == poor) {
            EXPECT_THAT(result, StatusIs(absl::StatusCode::kResourceExhausted,
                                         "out of memory"));
          } else {
            // Its program tells them, but for the world that it never had.
            EXPECT_THAT(result, Not(IsOk()));
            EXPECT_THAT(result.ToString(),
                        operation == 0 ? Matcher<std::string>(Names(poor))
                                       : HasSubstr("RESOURCE_EXHAUSTED"));
          }
        }
      });
}

// The group may have done its work before the abort comes, but who hears of it
// hears the cause.
TEST_P(LoopbackFaultsTest, AnAbortFromAnotherTaskHasOneCauseEverywhere) {
  int32_t told = 0;
  ForEachPlace(
      "abort", "",
      [&](const FaultRun& run, int32_t aborter, uint64_t operation) {
        for (const absl::Status& result : run.results) {
          if (result.ok()) continue;
          ++told;
          EXPECT_THAT(
              result,
              StatusIs(absl::StatusCode::kAborted,
                       absl::StrCat("rank ", aborter,
                                    " of the world aborted the group by a "
                                    "fault at operation ",
                                    operation, " (")));
        }
      });
  EXPECT_GT(told, 0);
}

TEST_P(LoopbackFaultsTest, ARankAloneSendsNoMessage) {
  // The half of rank 1 is itself alone.
  for (const char* kind : {"lose", "short", "corrupt", "duplicate"}) {
    const FaultRun run =
        RunWithFaults({.runtime = GetParam(),
                       .size = 2,
                       .faults = absl::StrCat(kind, " rank=1 at=5")});
    EXPECT_THAT(run.results, Each(IsOk())) << kind;
    EXPECT_THAT(run.report, AllOf(HasSubstr("\": reached"),
                                  HasSubstr("duplicates dropped: 0\n")));
  }
}

TEST_P(LoopbackFaultsTest, ChecksFindNothingInAProgramThatKeepsTheRules) {
  for (int32_t size = 2; size <= kSize; ++size) {
    for (const int64_t small_bytes : {0, 65536}) {
      const FaultRun run = RunWithFaults({.runtime = GetParam(),
                                          .size = size,
                                          .checks = true,
                                          .small_bytes = small_bytes});
      EXPECT_THAT(run.results, Each(IsOk()));
    }
  }
}

TEST_P(LoopbackFaultsTest, APlanForARankThatTheWorldLacksIsRefused) {
  const FaultRun run = RunWithFaults(
      {.runtime = GetParam(), .size = 2, .faults = "die rank=2 before=0"});
  EXPECT_THAT(run.results, Each(StatusIs(absl::StatusCode::kInvalidArgument,
                                         "want a rank in [0, 2), got 2")));
}

TEST_P(LoopbackFaultsTest, ABadPlanIsRefusedWhenThePluginIsOpened) {
  const FaultRun run = RunWithFaults(
      {.runtime = GetParam(), .size = 2, .faults = "explode rank=0 at=0"});
  EXPECT_THAT(run.results, Each(StatusIs(absl::StatusCode::kInvalidArgument,
                                         "no kind \"explode\"; known: die")));
}

INSTANTIATE_TEST_SUITE_P(
    Sim, LoopbackFaultsTest,
    ::testing::Values(RuntimeCase{RuntimeCase::Kind::kSim, 1},
                      RuntimeCase{RuntimeCase::Kind::kSim, 2}),
    RuntimeCaseName);

// What needs no deadline, in real time.
TEST(LoopbackFaultsOnThreadsTest, FaultsThatAreSeenAtOnce) {
  for (uint64_t operation = 0; operation < kOperationCount; ++operation) {
    const std::string place = absl::StrCat(" rank=1 at=", operation);
    SCOPED_TRACE(place);
    const auto run = [&](absl::string_view kind, absl::string_view rest = "") {
      return RunWithFaults({.size = kSize,
                            .faults = absl::StrCat(kind, place, rest),
                            .checks = true,
                            .patience = absl::Minutes(1)});
    };
    EXPECT_THAT(run("late", " ns=1000000").results, Each(IsOk()));
    EXPECT_THAT(run("duplicate").results, Each(IsOk()));
    for (const char* kind : {"short", "corrupt"}) {
      for (const absl::Status& result : run(kind).results) {
        EXPECT_THAT(result.ToString(), AllOf(HasSubstr("DATA_LOSS"), Names(1)));
      }
    }
    EXPECT_THAT(run("abort").results,
                Each(AnyOf(IsOk(), StatusIs(absl::StatusCode::kAborted,
                                            "aborted the group by a fault"))));
  }
}

}  // namespace
}  // namespace muonshard::testing
