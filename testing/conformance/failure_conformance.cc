// What a group does with absent ranks, deadlines, aborts, leavers and failed
// producers: one test or more for each row of the error table of collective.h.

#include <gmock/gmock.h>

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "testing/conformance/collective_conformance.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

constexpr absl::Duration kPatience = absl::Milliseconds(20);
constexpr char kLetGo[] = "let-go";

// Until another rank says so, this one takes no part in anything.
absl::Status StayAway(RankContext& context) {
  return context.store.Get(kLetGo, GuardDeadline(context.runtime)).status();
}
absl::Status LetGo(RankContext& context) {
  return context.store.Put(kLetGo, "yes");
}

// That the group is broken with `code` for good, and says so in every way.
void ExpectBroken(Collective& group, absl::StatusCode code) {
  // Another rank may have broken it a moment ago: a call hears of that.
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Finish(group, group.Barrier()), StatusIs(code));
  }
  EXPECT_THAT(group.Health(), StatusIs(code));
  // Later calls return the first error, not one of their own.
  group.Abort(absl::UnavailableError("too late to matter"));
  EXPECT_THAT(group.Health(), StatusIs(code));
}

TEST_P(CollectiveConformance, AGroupIsHealthyUntilItBreaks) {
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    EXPECT_THAT(world.Health(), IsOk());
    if (absl::Status s = Finish(world, world.Barrier()); !s.ok()) return s;
    EXPECT_THAT(world.Health(), IsOk());
    return Finish(world, world.Barrier());
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(PeerConformance, AnAbsentRankIsADeadlineNotAHang) {
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    if (context.rank == last()) return StayAway(context);
    Collective& world = *context.world;
    const absl::StatusOr<Work> work = world.Barrier();
    if (!work.ok()) return work.status();
    EXPECT_THAT(work->Wait(context.runtime.Now() + kPatience),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    // The wait gave up, the operation did not.
    EXPECT_FALSE(work->done());
    EXPECT_THAT(world.Health(), IsOk());
    return LetGo(context);
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(PeerConformance, ALateRankCompletesWhatOthersWaitedForInVain) {
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    Collective& world = *context.world;
    if (context.rank == last()) {
      if (absl::Status s = StayAway(context); !s.ok()) return s;
      return Finish(world, world.Barrier());
    }
    const absl::StatusOr<Work> work = world.Barrier();
    if (!work.ok()) return work.status();
    if (context.rank == Rank{0}) {
      EXPECT_THAT(work->Wait(context.runtime.Now()),
                  StatusIs(absl::StatusCode::kDeadlineExceeded));
      if (absl::Status s = LetGo(context); !s.ok()) return s;
    }
    return Finish(world, work);
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(PeerConformance, AnOperationsOwnDeadlineBreaksTheGroupOnEveryRank) {
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    Collective& world = *context.world;
    if (context.rank == Rank{0}) {
      const absl::StatusOr<Work> work = world.Barrier(
          {.label = "hurried", .deadline = context.runtime.Now() + kPatience});
      if (!work.ok()) return work.status();
      EXPECT_THAT(work->Wait(GuardDeadline(context.runtime)),
                  StatusIs(absl::StatusCode::kDeadlineExceeded, "hurried"));
      EXPECT_TRUE(work->done());
      if (absl::Status s = LetGo(context); !s.ok()) return s;
    } else {
      if (absl::Status s = StayAway(context); !s.ok()) return s;
      // What rank 0 sent before it gave up may be all that this call lacks; the
      // next one lacks rank 0.
      const absl::Status first = Finish(world, world.Barrier());
      if (!first.ok()) {
        EXPECT_THAT(first, StatusIs(absl::StatusCode::kDeadlineExceeded));
      }
    }
    ExpectBroken(world, absl::StatusCode::kDeadlineExceeded);
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(PeerConformance, AbortWakesWaitingRanksAndStaysInForce) {
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    if (world.rank() == last()) {
      world.Abort(absl::UnavailableError("the operator said stop"));
    } else {
      EXPECT_THAT(
          Finish(world, world.Barrier()),
          StatusIs(absl::StatusCode::kAborted, "the operator said stop"));
    }
    EXPECT_THAT(world.Health(),
                StatusIs(absl::StatusCode::kAborted, "the operator said stop"));
    ExpectBroken(world, absl::StatusCode::kAborted);
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, AbortMayComeFromAnyTaskWhileARankWaits) {
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    EventSource never(world.runtime());
    const absl::StatusOr<Work> work = world.Barrier({.ready = {never.event()}});
    const std::unique_ptr<Task> aborter = world.runtime().Start(
        "aborter", TaskKind::kProgram,
        [&] { world.Abort(absl::CancelledError("another task said stop")); });
    EXPECT_THAT(Finish(world, work),
                StatusIs(absl::StatusCode::kAborted, "another task said stop"));
    aborter->Join();
    ExpectBroken(world, absl::StatusCode::kAborted);
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, AbortEndsEveryCallInFlight) {
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    EventSource never(world.runtime());
    std::vector<Work> works;
    for (int i = 0; i < 5; ++i) {
      const absl::StatusOr<Work> work =
          world.Barrier({.ready = {never.event()}});
      // Another rank may have been here first.
      if (work.ok()) works.push_back(*work);
    }
    world.Abort(absl::CancelledError("stop"));
    for (const Work& work : works) {
      EXPECT_THAT(work.Wait(GuardDeadline(world.runtime())),
                  StatusIs(absl::StatusCode::kAborted));
      EXPECT_THAT(work.event().Wait(GuardDeadline(world.runtime())),
                  StatusIs(absl::StatusCode::kAborted));
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(PeerConformance, AFailedProducerFailsTheCallOnEveryRank) {
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    EventSource producer(world.runtime());
    const bool fails = world.rank() == last();
    const absl::StatusOr<Work> work =
        world.Barrier({.ready = {fails ? producer.event() : Event()}});
    producer.Complete(absl::DataLossError("the producer broke"));
    const absl::Status ended = Finish(world, work);
    EXPECT_FALSE(ended.ok());
    EXPECT_THAT(ended, StatusIs(ended.code(), "the producer broke"));
    EXPECT_NE(ended.code(), absl::StatusCode::kInvalidArgument);
    ExpectBroken(world, ended.code());
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(PeerConformance, ARankThatLeavesEndsWhatOthersWaitFor) {
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    if (context.rank == last()) {
      context.world.reset();
      return absl::OkStatus();
    }
    EXPECT_THAT(Finish(*context.world, context.world->Barrier()),
                StatusIs(absl::StatusCode::kAborted));
    ExpectBroken(*context.world, absl::StatusCode::kAborted);
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(PeerConformance, ARankThatLeavesWithCallsInFlightEndsThemEverywhere) {
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    EventSource never(context.runtime);
    const bool leaves = context.rank == last();
    const absl::StatusOr<Work> work =
        context.world->Barrier({.ready = {leaves ? never.event() : Event()}});
    if (leaves) context.world.reset();
    if (!work.ok()) {
      EXPECT_THAT(work, StatusIs(absl::StatusCode::kAborted));
      return absl::OkStatus();
    }
    EXPECT_THAT(work->Wait(GuardDeadline(context.runtime)),
                StatusIs(absl::StatusCode::kAborted));
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, ABrokenGroupLeavesOthersWhole) {
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    absl::StatusOr<std::unique_ptr<Collective>> other = NewSecondGroup(context);
    if (!other.ok()) return other.status();
    (*other)->Abort(absl::CancelledError("stop"));
    ExpectBroken(**other, absl::StatusCode::kAborted);
    if (absl::Status s = Finish(*context.world, context.world->Barrier());
        !s.ok()) {
      return s;
    }
    return context.world->Health();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

}  // namespace
}  // namespace muonshard::testing
