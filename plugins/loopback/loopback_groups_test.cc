// How groups of loopback come about, or do not, through the loader and on both
// runtimes.

#include <gmock/gmock.h>

#include <memory>
#include <span>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/store.h"
#include "plugins/loopback/loopback_test.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::Not;

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

// Takes everything but the verdict on the making of a group.
class NoVerdictStore : public Store {
 public:
  explicit NoVerdictStore(Store& store) : store_(store) {}

  absl::Status Put(absl::string_view key, absl::string_view value) override {
    if (absl::EndsWith(key, "/verdict")) {
      return absl::UnavailableError("no verdict");
    }
    return store_.Put(key, value);
  }
  absl::StatusOr<std::string> Get(absl::string_view key,
                                  absl::Time deadline) override {
    return store_.Get(key, deadline);
  }
  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) override {
    return store_.Add(key, delta);
  }

 private:
  Store& store_;
};

// Whoever comes last ends the waits of the others, and must not go on alone if
// it cannot.
TEST(LoopbackStoreTest, ARankThatCannotGiveTheVerdictIsInNoGroup) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const RankRun run = RunOnRanks(
        {.runtime = {.kind = RuntimeCase::Kind::kSim, .seed = seed}, .size = 2},
        [](RankContext& context) -> absl::Status {
          NoVerdictStore store(context.store);
          const auto group = context.plugin.NewGroup(
              {.rank = context.rank,
               .size = 2,
               .name = "g",
               .deadline = context.runtime.Now() + absl::Seconds(1),
               .store = &store});
          return group.status();
        });
    EXPECT_THAT(run.results, Each(Not(IsOk())));
    EXPECT_THAT(run.results, Contains(StatusIs(absl::StatusCode::kUnavailable,
                                               "the store fails group \"g\"")));
  }
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

TEST_P(LoopbackTest, AMessageThatWaitsForAnotherGroupIsADeadlock) {
  const auto results = Run(2, [](RankContext& context) -> absl::Status {
    auto second =
        context.world->Split(0, 0, "second", GuardDeadline(context.runtime));
    if (!second.ok()) return second.status();
    if (context.rank == Rank{1}) return WaitFor(context, (*second)->Barrier());
    float in = 0;
    return WaitFor(context,
                   context.world->Recv(
                       MutableBuffer::Of<float>(std::span(&in, 1)), Rank{1}));
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                                     "deadlock: ")));
}

TEST_P(LoopbackTest, AMessageOfOthersHoldsNobodyUp) {
  const auto results = Run(4, [](RankContext& context) -> absl::Status {
    auto second =
        context.world->Split(0, 0, "second", GuardDeadline(context.runtime));
    if (!second.ok()) return second.status();
    float in = 0;
    if (context.rank == Rank{2}) {
      // Rank 3 sends nothing.
      const auto received =
          (*second)->Recv(MutableBuffer::Of<float>(std::span(&in, 1)), Rank{3});
      if (!received.ok()) return received.status();
    }
    if (absl::Status s = MeetInStore(context, 4, "received"); !s.ok()) return s;
    absl::Status ended;
    if (context.rank != Rank{1}) {
      ended = WaitFor(
          context, context.world->Barrier({.deadline = context.runtime.Now() +
                                                       absl::Milliseconds(5)}));
    }
    if (absl::Status s = MeetInStore(context, 4, "over"); !s.ok()) return s;
    return context.rank == Rank{1} ? context.world->Health() : ended;
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kDeadlineExceeded,
                                     "missing rank 1 [rank 1]")));
}

// The first group of rank 0 has got its latest call from a task that waits for
// rank 1, which waits for the first group: but another task may call next.
TEST(LoopbackTasksTest, ARankThatCallsFromTwoTasksIsInNoDeadlock) {
  const auto program = [](RankContext& context) -> absl::Status {
    Runtime& runtime = context.runtime;
    Collective& first = *context.world;
    auto second = first.Split(0, 0, "second", GuardDeadline(runtime));
    if (!second.ok()) return second.status();
    EXPECT_THAT(first.Barrier(), IsOk());
    if (context.rank == Rank{1}) {
      EXPECT_THAT(first.Barrier(), IsOk());
      if (absl::Status s = WaitFor(context, first.Barrier()); !s.ok()) return s;
      return WaitFor(context, (*second)->Barrier());
    }
    absl::Status helped;
    const auto helper = runtime.Start("helper", TaskKind::kProgram, [&] {
      EXPECT_THAT(first.Barrier(), IsOk());
      helped = WaitFor(context, (*second)->Barrier());
    });
    {
      // The simulated clock goes on when all others are blocked.
      const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
      const std::unique_ptr<Condition> never = runtime.NewCondition();
      MutexLock lock(*mutex);
      never->Wait(*mutex, runtime.Now() + absl::Milliseconds(1));
    }
    const absl::Status last = WaitFor(context, first.Barrier());
    helper->Join();
    return last.ok() ? helped : last;
  };
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const RankRun run = RunOnRanks(
        {.runtime = {.kind = RuntimeCase::Kind::kSim, .seed = seed}, .size = 2},
        program);
    EXPECT_THAT(run.results, Each(IsOk()));
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, LoopbackTest,
                         ::testing::ValuesIn(BothRuntimes(8)), RuntimeCaseName);

}  // namespace
}  // namespace muonshard::testing
