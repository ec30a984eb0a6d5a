// What loopback promises beyond the conformance suite, through the loader and
// on both runtimes.

#include "plugins/loopback/loopback_test.h"

#include <gmock/gmock.h>

#include <cstddef>
#include <span>

#include "collectives/runtime/event.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;

TEST_P(LoopbackTest, ADeadlockOverTwoGroupsNamesEveryWait) {
  const auto results = Run(3, [](RankContext& context) -> absl::Status {
    auto other = NewGroup(context, context.plugin, 3, "other",
                          GuardDeadline(context.runtime));
    if (!other.ok()) return other.status();
    const bool first = context.rank == Rank{0};
    Collective& group = first ? **other : *context.world;
    const absl::Status ended =
        WaitFor(context, group.Barrier({.label = first ? "there" : "here"}));
    if (absl::Status s = MeetInStore(context, 3, "heard"); !s.ok()) return s;
    return ended;
  });
  EXPECT_THAT(
      results,
      Each(AllOf(
          StatusIs(absl::StatusCode::kFailedPrecondition,
                   "rank 0 waits for operation 0 (Barrier \"there\") of group "
                   "\"other\", which lacks rank "),
          StatusIs(absl::StatusCode::kFailedPrecondition,
                   " waits for operation 0 (Barrier \"here\") of group "
                   "\"world\", which lacks rank 0"))));
}

TEST_P(LoopbackTest, ARankThatPollsIsInNoDeadlock) {
  const auto results = Run(2, [](RankContext& context) -> absl::Status {
    Collective& world = *context.world;
    int32_t token = 7;
    const MutableBuffer buffer = MutableBuffer::Of(std::span(&token, 1));
    if (context.rank == Rank{1}) {
      if (absl::Status s = WaitFor(context, world.Barrier()); !s.ok()) return s;
      return WaitFor(
          context,
          world.Send(ConstBuffer::Of(std::span<const int32_t>(&token, 1)),
                     Rank{0}));
    }
    const absl::StatusOr<Work> received = world.Recv(buffer, Rank{1});
    if (!received.ok()) return received.status();
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(received->Wait(context.runtime.Now() + absl::Milliseconds(2)),
                  StatusIs(absl::StatusCode::kDeadlineExceeded));
    }
    if (absl::Status s = WaitFor(context, world.Barrier()); !s.ok()) return s;
    return WaitFor(context, received);
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(LoopbackTest, ADeadlineNamesWhoIsMissingAndWhoIsNotReady) {
  const auto results = Run(4, [](RankContext& context) -> absl::Status {
    Collective& world = *context.world;
    EventSource never(context.runtime);
    absl::Status ended;
    if (context.rank == Rank{0}) {
      if (absl::Status s =
              context.store.Get("posted/3", GuardDeadline(context.runtime))
                  .status();
          !s.ok()) {
        return s;
      }
      ended =
          WaitFor(context, world.Barrier({.label = "b",
                                          .deadline = context.runtime.Now() +
                                                      absl::Milliseconds(5)}));
    } else if (context.rank == Rank{3}) {
      const auto work = world.Barrier({.ready = {never.event()}});
      if (absl::Status s = context.store.Put("posted/3", "yes"); !s.ok()) {
        return s;
      }
      ended = WaitFor(context, work);
    }
    if (absl::Status s = MeetInStore(context, 4, "over"); !s.ok()) return s;
    return context.rank == Rank{0} || context.rank == Rank{3} ? ended
                                                              : world.Health();
  });
  EXPECT_THAT(
      results,
      Each(StatusIs(absl::StatusCode::kDeadlineExceeded,
                    "1 of 4 ranks arrived; missing ranks 1, 2; the producers "
                    "have not ended on rank 3 [rank 1]")));
}

TEST_P(LoopbackTest, ARankWhoseProducersHaveNotEndedIsToBlame) {
  const auto results = Run(2, [](RankContext& context) -> absl::Status {
    Collective& world = *context.world;
    EventSource never(context.runtime);
    absl::StatusOr<Work> work;
    if (context.rank == Rank{1}) {
      work = world.Barrier({.ready = {never.event()}});
    }
    if (absl::Status s = MeetInStore(context, 2, "posted"); !s.ok()) return s;
    if (context.rank == Rank{0}) {
      work = world.Barrier(
          {.deadline = context.runtime.Now() + absl::Milliseconds(5)});
    }
    const absl::Status ended = WaitFor(context, work);
    const absl::Status met = MeetInStore(context, 2, "over");
    return met.ok() ? ended : met;
  });
  EXPECT_THAT(results, Each(StatusIs(
                           absl::StatusCode::kDeadlineExceeded,
                           "the producers have not ended on rank 1 [rank 1]")));
}

TEST_P(LoopbackTest, ADeadlineBehindAnotherOperationNamesThatOne) {
  const auto results = Run(2, [](RankContext& context) -> absl::Status {
    Collective& world = *context.world;
    if (context.rank == Rank{0}) {
      const auto first = world.Barrier({.label = "first"});
      if (!first.ok()) return first.status();
      EXPECT_THAT(
          WaitFor(context, world.Barrier({.label = "second",
                                          .deadline = context.runtime.Now()})),
          StatusIs(absl::StatusCode::kDeadlineExceeded,
                   "(Barrier \"second\") of group \"world\": deadline "
                   "passed behind operation 0; 1 of 2 ranks arrived; "
                   "missing rank 1"));
    }
    return MeetInStore(context, 2, "over");
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(LoopbackTest, NobodyNeedsToWaitForADeadlineToBeSeen) {
  const auto results = Run(2, [](RankContext& context) -> absl::Status {
    if (context.rank == Rank{0}) {
      const auto work = context.world->Barrier(
          {.deadline = context.runtime.Now() + absl::Milliseconds(2)});
      if (!work.ok()) return work.status();
      // An event is heard of without a wait for the work.
      EXPECT_THAT(work->event().Wait(GuardDeadline(context.runtime)),
                  StatusIs(absl::StatusCode::kDeadlineExceeded, "rank 1"));
    }
    return MeetInStore(context, 2, "over");
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(LoopbackTest, WhoLeavesIsNamedToThoseWhoNeedIt) {
  const auto results = Run(3, [](RankContext& context) -> absl::Status {
    if (context.rank == Rank{1}) {
      context.world.reset();
      return absl::OkStatus();
    }
    return WaitFor(context, context.world->Barrier());
  });
  EXPECT_THAT(results[1], IsOk());
  for (const size_t rank : {0, 2}) {
    EXPECT_THAT(results[rank], StatusIs(absl::StatusCode::kAborted,
                                        "rank 1 left the group \"world\""));
  }
}

TEST_P(LoopbackTest, WhoHasLeftIsNamedToThoseWhoCallLater) {
  for (const int32_t gone : {0, 1, 2}) {
    const auto results = Run(3, [gone](RankContext& context) -> absl::Status {
      if (context.rank == Rank{gone}) {
        context.world.reset();
        return context.store.Put("left", "yes");
      }
      const auto left =
          context.store.Get("left", GuardDeadline(context.runtime));
      if (!left.ok()) return left.status();
      const absl::Status ended = WaitFor(context, context.world->Barrier());
      EXPECT_THAT(ended, StatusIs(absl::StatusCode::kAborted,
                                  absl::StrCat("rank ", gone,
                                               " left the group \"world\"")));
      return absl::OkStatus();
    });
    EXPECT_THAT(results, Each(IsOk()));
  }
}

// Everything large: shares are run by whoever waits, or by the services.
TEST_P(LoopbackTest, LargeOperationsEndWhetherOrNotAnybodyWaits) {
  const auto results = Run(
      4,
      [](RankContext& context) -> absl::Status {
        for (const bool waits : {false, true, false}) {
          std::vector<int64_t> buffer(100, ToInt(context.rank) + 1);
          const auto work = context.world->AllReduce(
              ConstBuffer::Of<int64_t>(buffer),
              MutableBuffer::Of<int64_t>(buffer), Reduction::Sum());
          if (!work.ok()) return work.status();
          const absl::Time deadline = GuardDeadline(context.runtime);
          const absl::Status ended =
              waits ? work->Wait(deadline) : work->event().Wait(deadline);
          if (!ended.ok()) return ended;
          EXPECT_THAT(buffer, Each(1 + 2 + 3 + 4));
        }
        return absl::OkStatus();
      },
      "{\"small_bytes\": 0}");
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(LoopbackTest, AbortWhileLargeOperationsRunEndsThemAlikeOnAllRanks) {
  const auto results = Run(
      3,
      [](RankContext& context) -> absl::Status {
        std::vector<float> in(3000, 1);
        std::vector<std::vector<float>> out(4, std::vector<float>(3000));
        std::vector<Work> works;
        for (std::vector<float>& result : out) {
          auto work = context.world->AllReduce(ConstBuffer::Of<float>(in),
                                               MutableBuffer::Of<float>(result),
                                               Reduction::Sum());
          if (work.ok()) works.push_back(*std::move(work));
        }
        if (context.rank == Rank{1}) {
          context.world->Abort(absl::CancelledError("enough"));
        }
        std::string codes;
        for (const Work& work : works) {
          const absl::Status ended = work.Wait(GuardDeadline(context.runtime));
          codes += ended.ok() ? "o" : "a";
          EXPECT_TRUE(ended.ok() || ended.code() == absl::StatusCode::kAborted);
        }
        // All that ended well on one rank did on all.
        codes.resize(4, 'a');
        const std::string rank = std::to_string(ToInt(context.rank));
        if (absl::Status s = context.store.Put("codes" + rank, codes);
            !s.ok()) {
          return s;
        }
        const auto theirs =
            context.store.Get("codes0", GuardDeadline(context.runtime));
        if (!theirs.ok()) return theirs.status();
        EXPECT_EQ(codes, *theirs);
        return MeetInStore(context, 3, "over");
      },
      "{\"small_bytes\": 0}");
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(LoopbackTest, ALongChainOfProducersTakesNoStack) {
  constexpr int kLinks = 3000;
  const auto results = Run(2, [](RankContext& context) -> absl::Status {
    EventSource start(context.runtime);
    std::vector<Work> works;
    Event ready = start.event();
    for (int i = 0; i < kLinks; ++i) {
      auto work = context.world->Barrier({.ready = {ready}});
      if (!work.ok()) return work.status();
      ready = work->event();
      works.push_back(*std::move(work));
    }
    start.Complete(absl::OkStatus());
    return works.back().Wait(GuardDeadline(context.runtime));
  });
  EXPECT_THAT(results, Each(IsOk()));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, LoopbackTest,
                         ::testing::ValuesIn(BothRuntimes(8)), RuntimeCaseName);

TEST(LoopbackOnSimTest, TheSameSeedGivesTheSameTrace) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    uint64_t hashes[2];
    for (uint64_t& hash : hashes) {
      hash = RunOnRanks(
                 {.runtime = {.kind = RuntimeCase::Kind::kSim, .seed = seed},
                  .size = 4,
                  .plugin_options = "{\"small_bytes\": 0}"},
                 [](RankContext& context) -> absl::Status {
                   std::vector<float> buffer(50, 1);
                   for (int i = 0; i < 5; ++i) {
                     if (absl::Status s = WaitFor(
                             context, context.world->AllReduce(
                                          ConstBuffer::Of<float>(buffer),
                                          MutableBuffer::Of<float>(buffer),
                                          Reduction::Average()));
                         !s.ok()) {
                       return s;
                     }
                   }
                   return absl::OkStatus();
                 })
                 .trace_hash;
    }
    EXPECT_EQ(hashes[0], hashes[1]) << seed;
    EXPECT_NE(hashes[0], 0u);
  }
}

}  // namespace
}  // namespace muonshard::testing
