#include "testing/rank_harness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ValuesIn;

class RankHarnessTest : public ::testing::TestWithParam<RuntimeCase> {};

INSTANTIATE_TEST_SUITE_P(Runtimes, RankHarnessTest, ValuesIn(BothRuntimes(2)),
                         RuntimeCaseName);

absl::Status MeetAll(Collective& world) {
  const absl::StatusOr<Work> work = world.Barrier();
  if (!work.ok()) return work.status();
  return work->Wait(GuardDeadline(world.runtime()));
}

TEST_P(RankHarnessTest, EveryRankRunsOnceInOneWorld) {
  std::vector<std::atomic<int>> runs(3);
  const RankRun run =
      RunOnRanks({.runtime = GetParam(), .size = 3}, [&](Collective& world) {
        EXPECT_EQ(world.size(), 3);
        ++runs[static_cast<size_t>(ToInt(world.rank()))];
        return MeetAll(world);
      });
  EXPECT_THAT(run.results, ElementsAre(IsOk(), IsOk(), IsOk()));
  for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 1);
}

TEST_P(RankHarnessTest, ResultsAreInRankOrder) {
  const RankRun run =
      RunOnRanks({.runtime = GetParam(), .size = 3}, [&](Collective& world) {
        return world.rank() == Rank{1} ? absl::DataLossError("mine")
                                       : absl::OkStatus();
      });
  EXPECT_THAT(run.results,
              ElementsAre(IsOk(), StatusIs(absl::StatusCode::kDataLoss, "mine"),
                          IsOk()));
}

TEST_P(RankHarnessTest, ARankThatFailsWakesTheOthers) {
  const RankRun run =
      RunOnRanks({.runtime = GetParam(), .size = 3}, [&](Collective& world) {
        return world.rank() == Rank{2} ? absl::DataLossError("the disk is gone")
                                       : MeetAll(world);
      });
  const auto is_aborted =
      StatusIs(absl::StatusCode::kAborted, "the disk is gone");
  EXPECT_THAT(run.results, ElementsAre(is_aborted, is_aborted,
                                       StatusIs(absl::StatusCode::kDataLoss)));
}

TEST_P(RankHarnessTest, ARankThatIsDoneEarlyDoesNotLookLikeOneThatLeft) {
  const RankRun run =
      RunOnRanks({.runtime = GetParam(), .size = 2}, [&](RankContext& context) {
        if (context.rank == Rank{0}) return absl::OkStatus();
        for (int i = 0; i < 100; ++i) context.runtime.Yield();
        return context.world->Health();
      });
  EXPECT_THAT(run.results, Each(IsOk()));
}

TEST_P(RankHarnessTest, APluginThatDoesNotLoadIsTheResultOfEveryRank) {
  const RankRun run =
      RunOnRanks({.runtime = GetParam(), .size = 2, .plugin = "no_such_plugin"},
                 [&](Collective&) { return absl::OkStatus(); });
  EXPECT_THAT(run.results, ElementsAre(StatusIs(absl::StatusCode::kNotFound),
                                       StatusIs(absl::StatusCode::kNotFound)));
}

TEST(RankHarnessSimTest, OneSeedIsOneTraceAndSeedsDiffer) {
  std::set<uint64_t> traces;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const RankRunOptions options = {
        .runtime = {.kind = RuntimeCase::Kind::kSim, .seed = seed}, .size = 4};
    const RankRun first = RunOnRanks(options, &MeetAll);
    const RankRun second = RunOnRanks(options, &MeetAll);
    EXPECT_THAT(first.results, Each(IsOk()));
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    traces.insert(first.trace_hash);
  }
  EXPECT_EQ(traces.size(), 8);
}

TEST(RankHarnessSimTest, ADeadlockIsTheResultOfEveryRank) {
  const RankRun run = RunOnRanks(
      {.runtime = {.kind = RuntimeCase::Kind::kSim}, .size = 2},
      [](RankContext& context) {
        EventSource never(context.runtime);
        // The simulated runtime ends the wait when nothing can run any more.
        EXPECT_FALSE(never.event().Wait(absl::InfiniteFuture()).ok());
        return absl::OkStatus();
      });
  EXPECT_THAT(run.results,
              Each(StatusIs(absl::StatusCode::kFailedPrecondition)));
}

TEST(RuntimeCaseTest, CasesAreThreadsOnceAndThenSeeds) {
  std::vector<std::string> names;
  for (const RuntimeCase& runtime : BothRuntimes(2)) {
    names.push_back(ToString(runtime));
  }
  EXPECT_THAT(names, ElementsAre("Threads", "Sim1", "Sim2"));
}

}  // namespace
}  // namespace muonshard::testing
