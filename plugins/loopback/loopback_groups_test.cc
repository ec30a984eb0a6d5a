// How groups of loopback come about, or do not, through the loader and on both
// runtimes.

#include <gmock/gmock.h>

#include "collectives/runtime/threads_runtime.h"
#include "plugins/loopback/loopback_test.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

constexpr char kCopy[] = "plugins/loopback/libmuonshard_loopback_copy.so";

TEST_P(LoopbackTest, EveryRankMayOpenThePluginForItself) {
  const auto results = Run(3, [](RankContext& context) -> absl::Status {
    auto own = Plugin::Open(PluginSearchFromEnvironment("loopback", ""),
                            context.runtime);
    if (!own.ok()) return own.status();
    auto group =
        NewGroup(context, **own, 3, "apart", GuardDeadline(context.runtime));
    if (!group.ok()) return group.status();
    return WaitFor(context, (*group)->Barrier());
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(LoopbackTest, TwoCopiesOfTheSharedObjectShareNoState) {
  const auto results = Run(2, [](RankContext& context) -> absl::Status {
    auto copy = Plugin::Open({.plugin = kCopy}, context.runtime);
    if (!copy.ok()) return copy.status();
    // Groups of one name live in both copies at once.
    auto twin = (*copy)->NewGroup({.rank = Rank{0}, .size = 1});
    if (!twin.ok()) return twin.status();
    if (absl::Status s = WaitFor(context, (*twin)->Barrier()); !s.ok())
      return s;
    return WaitFor(context, context.world->Barrier());
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(LoopbackTest, RanksOfTwoCopiesAreAllToldSoAtOnce) {
  const auto results = Run(3, [](RankContext& context) -> absl::Status {
    auto copy = Plugin::Open({.plugin = kCopy}, context.runtime);
    if (!copy.ok()) return copy.status();
    Plugin& plugin = context.rank == Rank{2} ? **copy : context.plugin;
    // Whoever waited for the deadline would report that instead.
    return NewGroup(context, plugin, 3, "mixed", GuardDeadline(context.runtime))
        .status();
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kUnimplemented,
                                     "is in another copy than its peers")));
}

TEST(LoopbackRuntimesTest, RanksOnTwoRuntimesAreAllToldSoAtOnce) {
  const std::unique_ptr<Runtime> other = NewThreadsRuntime();
  const auto run = RunOnRanks({.size = 3}, [&](RankContext& context) {
    auto plugin =
        Plugin::Open(PluginSearchFromEnvironment("loopback", ""), *other);
    if (!plugin.ok()) return plugin.status();
    return NewGroup(context,
                    context.rank == Rank{2} ? **plugin : context.plugin, 3,
                    "mixed", GuardDeadline(context.runtime))
        .status();
  });
  EXPECT_THAT(run.results,
              Each(StatusIs(absl::StatusCode::kUnimplemented,
                            "is in another runtime than its peers")));
}

TEST_P(LoopbackTest, RanksThatDisagreeOnTheSizeOfAGroupAreToldSo) {
  const auto results = Run(2, [](RankContext& context) -> absl::Status {
    return NewGroup(context, context.plugin, 2 + ToInt(context.rank), "g",
                    context.runtime.Now() + absl::Seconds(20))
        .status();
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                                     "came to group")));
}

TEST_P(LoopbackTest, TwoRanksOfOneNumberAreToldSo) {
  const auto results = Run(2, [](RankContext& context) -> absl::Status {
    context.rank = Rank{0};
    return NewGroup(context, context.plugin, 2, "g",
                    context.runtime.Now() + absl::Seconds(20))
        .status();
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                                     "two ranks 0 came to group")));
}

TEST_P(LoopbackTest, ARankThatStaysAwayFromASplitIsNamed) {
  const auto results = Run(3, [](RankContext& context) -> absl::Status {
    if (context.rank != Rank{1}) {
      EXPECT_THAT(
          context.world->Split(0, 0, "half",
                               context.runtime.Now() + absl::Milliseconds(5)),
          StatusIs(absl::StatusCode::kDeadlineExceeded, "missing rank"));
    }
    if (absl::Status s = MeetInStore(context, 3, "over"); !s.ok()) return s;
    return context.world->Health();
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kDeadlineExceeded)));
}

TEST_P(LoopbackTest, RanksOfOneColorGiveTheirGroupOneName) {
  const auto results = Run(2, [](RankContext& context) -> absl::Status {
    const std::string name = absl::StrCat("half", ToInt(context.rank));
    return context.world->Split(0, 0, name, GuardDeadline(context.runtime))
        .status();
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                                     "calls color 0")));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, LoopbackTest,
                         ::testing::ValuesIn(BothRuntimes(8)), RuntimeCaseName);

}  // namespace
}  // namespace muonshard::testing
