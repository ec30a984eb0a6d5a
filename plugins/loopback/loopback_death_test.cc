// The death of a rank at every operation of a program: its peers learn who died
// within the deadline, nothing hangs and nothing is left over.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "absl/strings/str_cat.h"
#include "plugins/loopback/fault_run_test.h"
#include "plugins/loopback/loopback_test.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

class LoopbackDeathTest : public ::testing::TestWithParam<RuntimeCase> {};

// "rank 3" or "ranks 1, 3", in the words of loopback for ranks of a world.
auto Names(int32_t rank) {
  return ContainsRegex(absl::StrCat("ranks? ([0-9]+, )*", rank, "([^0-9]|$)"));
}

void ExpectNothingLeft(const FaultRun& run) {
  EXPECT_THAT(run.report, AllOf(HasSubstr("live works: 0\n"),
                                HasSubstr("live communicators: 0\n")));
}

// That `dead` was told of its fault, and everybody else who it was.
void ExpectPeersNameTheDead(const FaultRunOptions& options, int32_t dead,
                            uint64_t operation, const FaultRun& run) {
  for (int32_t rank = 0; rank < options.size; ++rank) {
    const absl::Status& result = run.results[static_cast<size_t>(rank)];
    if (rank == dead) {
      EXPECT_THAT(
          result,
          StatusIs(absl::StatusCode::kAborted,
                   absl::StrCat("rank ", dead, " died by a fault at operation ",
                                operation, " (")));
      continue;
    }
    EXPECT_THAT(result, Not(IsOk()));
    EXPECT_THAT(result.ToString(), Names(dead)) << "on rank " << rank;
    EXPECT_THAT(result.ToString(), Not(HasSubstr("died by a fault")))
        << "the dead tells nobody";
  }
}

TEST_P(LoopbackDeathTest, BeforeAnyOperationIsHeardOfByTheDeadline) {
  for (int32_t size = 2; size <= 4; ++size) {
    for (uint64_t operation = 0; operation < kOperationCount; ++operation) {
      for (int32_t dead = 0; dead < size; ++dead) {
        const FaultRunOptions options = {
            .runtime = GetParam(),
            .size = size,
            .faults = absl::StrCat("die rank=", dead, " before=", operation),
            .small_bytes = operation % 2 == 0 ? 0 : 1024};
        SCOPED_TRACE(absl::StrCat(options.faults, " of ", size));
        const FaultRun run = RunWithFaults(options);
        ExpectPeersNameTheDead(options, dead, operation, run);
        // Whoever waits for a rank that has given up waits no second time.
        EXPECT_THAT(run.durations, Each(Le(2 * options.patience)));
        ExpectNothingLeft(run);
        EXPECT_THAT(run.report,
                    HasSubstr(absl::StrCat("fault \"", options.faults,
                                           "\": reached\n")));
        // A post of two counts as two, whichever it dies at.
        const uint64_t counted = operation + (operation == kPostOfTwo ? 2 : 1);
        EXPECT_THAT(run.report,
                    HasSubstr(absl::StrCat("operations of rank ", dead, ": ",
                                           counted, "\n")));
      }
    }
  }
}

// The making of a group has ended for its peers, which then miss it in what
// the core exchanges through the store; hence from operation 1 on.
TEST_P(LoopbackDeathTest, AfterAnyOperationIsHeardOfAtTheNextOne) {
  for (int32_t size = 2; size <= 4; ++size) {
    for (uint64_t operation = 1; operation + 1 < kOperationCount; ++operation) {
      for (int32_t dead = 0; dead < size; ++dead) {
        const FaultRunOptions options = {
            .runtime = GetParam(),
            .size = size,
            .faults = absl::StrCat("die rank=", dead, " after=", operation),
            .small_bytes = operation % 2 == 0 ? 0 : 1024};
        SCOPED_TRACE(absl::StrCat(options.faults, " of ", size));
        const FaultRun run = RunWithFaults(options);
        ExpectPeersNameTheDead(options, dead, operation, run);
        EXPECT_THAT(run.durations, Each(Le(2 * options.patience)));
        ExpectNothingLeft(run);
      }
    }
  }
}

TEST_P(LoopbackDeathTest, AfterTheLastOperationNobodyMissesTheDead) {
  const FaultRun run = RunWithFaults(
      {.runtime = GetParam(),
       .size = 3,
       .faults = absl::StrCat("die rank=1 after=", kOperationCount - 1)});
  EXPECT_THAT(run.results, Each(IsOk()));
  EXPECT_THAT(run.report, HasSubstr("reached"));
  ExpectNothingLeft(run);
}

TEST_P(LoopbackDeathTest, AfterTheMakingOfAGroupNobodyHangs) {
  const FaultRun run = RunWithFaults(
      {.runtime = GetParam(), .size = 3, .faults = "die rank=2 after=0"});
  EXPECT_THAT(run.results, Each(Not(IsOk())));
  EXPECT_THAT(run.results[2],
              StatusIs(absl::StatusCode::kAborted,
                       "rank 2 died by a fault at operation 0 (the making of "
                       "group \"world\")"));
  ExpectNothingLeft(run);
}

TEST_P(LoopbackDeathTest, OfTwoRanksNamesBoth) {
  const FaultRunOptions options = {
      .runtime = GetParam(),
      .size = 4,
      .faults = "die rank=1 before=8; die rank=3 before=8"};
  const FaultRun run = RunWithFaults(options);
  for (const size_t rank : {0, 2}) {
    EXPECT_THAT(run.results[rank].ToString(), HasSubstr("missing ranks 1, 3"));
  }
  ExpectNothingLeft(run);
}

TEST_P(LoopbackDeathTest, WithoutFaultsTheProgramIsCountedAndEndsWell) {
  for (int32_t size = 1; size <= 4; ++size) {
    if (size == 1) continue;  // A rank cannot send to itself.
    const FaultRun run = RunWithFaults(
        {.runtime = GetParam(),
         .size = size,
         .faults = absl::StrCat("die rank=0 before=", kOperationCount)});
    EXPECT_THAT(run.results, Each(IsOk()));
    for (int32_t rank = 0; rank < size; ++rank) {
      EXPECT_THAT(run.report,
                  HasSubstr(absl::StrCat("operations of rank ", rank, ": ",
                                         kOperationCount, "\n")));
    }
    EXPECT_THAT(run.report,
                HasSubstr("fault \"die rank=0 before=10\": not reached\n"));
    ExpectNothingLeft(run);
  }
}

// Rank 0 dies when it has called for a message and its peer has not.
TEST_P(LoopbackDeathTest, AMessageOfTheDeadNeverMeetsItsPeer) {
  for (const bool dead_sends : {true, false}) {
    const auto program = [dead_sends](RankContext& context) -> absl::Status {
      const bool dead = context.rank == Rank{0};
      const Rank peer{dead ? 1 : 0};
      Collective& world = *context.world;
      if (!dead) {
        const auto died =
            context.store.Get("died", GuardDeadline(context.runtime));
        if (!died.ok()) return died.status();
      }
      int32_t value = dead ? 7 : 5;
      const std::span<int32_t> buffer(&value, 1);
      const CallOptions call = {.deadline =
                                    context.runtime.Now() + absl::Seconds(1)};
      const auto work =
          dead == dead_sends
              ? world.Send(ConstBuffer::Of<int32_t>(buffer), peer, call)
              : world.Recv(MutableBuffer::Of<int32_t>(buffer), peer, call);
      if (dead) {
        EXPECT_THAT(world.Barrier(), StatusIs(absl::StatusCode::kAborted,
                                              "rank 0 died by a fault"));
        EXPECT_THAT(WaitFor(context, work),
                    StatusIs(absl::StatusCode::kAborted,
                             "rank 0 died by a fault at operation 2"));
        return context.store.Put("died", "yes");
      }
      EXPECT_THAT(
          WaitFor(context, work),
          StatusIs(absl::StatusCode::kDeadlineExceeded, "missing rank 0"));
      EXPECT_EQ(value, 5) << "nothing of the dead comes";
      return absl::OkStatus();
    };
    const RankRun run =
        RunOnRanks({.runtime = GetParam(),
                    .size = 2,
                    .plugin_options = "{\"faults\": \"die rank=0 before=2\"}"},
                   program);
    EXPECT_THAT(run.results, Each(IsOk()));
    EXPECT_THAT(run.plugin_report, HasSubstr("live works: 0\n"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sim, LoopbackDeathTest,
    ::testing::Values(RuntimeCase{RuntimeCase::Kind::kSim, 1},
                      RuntimeCase{RuntimeCase::Kind::kSim, 2},
                      RuntimeCase{RuntimeCase::Kind::kSim, 3}),
    RuntimeCaseName);

// Real time: each death costs its peers a deadline, long enough for a machine
// that does other things as well.
TEST(LoopbackDeathOnThreadsTest, IsHeardOfByTheDeadline) {
  for (const uint64_t operation : {kFirstPost, kSplit, kPostOfTwo + 1}) {
    const FaultRunOptions options = {
        .size = 3,
        .faults = absl::StrCat("die rank=1 before=", operation),
        .patience = absl::Seconds(3)};
    const FaultRun run = RunWithFaults(options);
    ExpectPeersNameTheDead(options, 1, operation, run);
    ExpectNothingLeft(run);
  }
}

}  // namespace
}  // namespace muonshard::testing
