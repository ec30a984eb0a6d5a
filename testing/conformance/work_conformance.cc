// Work: one end, seen alike by every way to ask for it.

#include <gmock/gmock.h>

#include <memory>
#include <utility>
#include <vector>

#include "collectives/work.h"
#include "testing/conformance/collective_conformance.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

TEST_P(CollectiveConformance, AWorkThatHasEndedSaysSoEveryTime) {
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const absl::StatusOr<Work> work = world.Barrier();
    if (absl::Status s = Finish(world, work); !s.ok()) return s;
    EXPECT_TRUE(work->done());
    EXPECT_THAT(work->Wait(absl::InfinitePast()), IsOk());
    EXPECT_THAT(work->Wait(absl::InfiniteFuture()), IsOk());
    EXPECT_TRUE(work->event().done());
    EXPECT_THAT(work->event().Wait(absl::InfinitePast()), IsOk());
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, AWorkMayBeWaitedForByItsEvent) {
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const absl::StatusOr<Work> work = world.Barrier();
    if (!work.ok()) return work.status();
    return work->event().Wait(GuardDeadline(world.runtime()));
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, AnEventCallsBackOnceWhenItsWorkEnds) {
  std::vector<int> calls(ranks(), 0);
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const absl::StatusOr<Work> work = world.Barrier();
    if (!work.ok()) return work.status();
    EventSource called(world.runtime());
    work->event().Then([&](const absl::Status& status) {
      ++calls[IndexOf(world.rank())];
      called.Complete(status);
    });
    return called.event().Wait(GuardDeadline(world.runtime()));
  });
  EXPECT_THAT(results, Each(IsOk()));
  EXPECT_THAT(calls, Each(1));
}

// One call of all ranks in `group`, which its callback drops.
absl::Status DropInCallback(Collective& world,
                            std::unique_ptr<Collective> group,
                            absl::Status produced) {
  Runtime& runtime = world.runtime();
  std::vector<float> buffer(12, 1);
  EventSource producer(runtime);
  EventSource dropped(runtime);
  {
    const absl::StatusOr<Work> work = group->AllReduce(
        ConstBuffer::Of<float>(buffer), MutableBuffer::Of<float>(buffer),
        Reduction::Sum(),
        {.ready = {producer.event()}, .deadline = GuardDeadline(runtime)});
    if (!work.ok()) return work.status();
    // Peers that have dropped theirs may have ended the call.
    work->event().Then(
        [held = std::move(group), &dropped](const absl::Status&) mutable {
          held.reset();
          dropped.Complete(absl::OkStatus());
        });
  }
  // A rank that fails breaks the group for those that still have to call.
  absl::Status s = Finish(world, world.Barrier());
  producer.Complete(std::move(produced));
  s.Update(dropped.event().Wait(GuardDeadline(runtime)));
  return s;
}

TEST_P(CollectiveConformance, AGroupMayBeDroppedByTheCallbackOfItsLastCall) {
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    auto group = NewSecondGroup(context);
    if (!group.ok()) return group.status();
    return DropInCallback(*context.world, *std::move(group), absl::OkStatus());
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, AGroupMayBeDroppedByTheCallbackOfAFailedCall) {
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    auto group = NewSecondGroup(context);
    if (!group.ok()) return group.status();
    return DropInCallback(*context.world, *std::move(group),
                          absl::DataLossError("flipped bit"));
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, SeveralTasksMayWaitForOneWork) {
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    EventSource gate(world.runtime());
    const absl::StatusOr<Work> work = world.Barrier({.ready = {gate.event()}});
    if (!work.ok()) return work.status();
    std::vector<absl::Status> waits(3, absl::UnknownError("did not wait"));
    std::vector<std::unique_ptr<Task>> tasks;
    for (absl::Status& wait : waits) {
      tasks.push_back(world.runtime().Start("waiter", TaskKind::kProgram, [&] {
        wait = work->Wait(GuardDeadline(world.runtime()));
      }));
    }
    gate.Complete(absl::OkStatus());
    for (const std::unique_ptr<Task>& task : tasks) task->Join();
    EXPECT_THAT(waits, Each(IsOk()));
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, AWaitThatExpiresLetsTheOperationGoOn) {
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    EventSource gate(world.runtime());
    const absl::StatusOr<Work> work = world.Barrier({.ready = {gate.event()}});
    if (!work.ok()) return work.status();
    EXPECT_THAT(work->Wait(absl::InfinitePast()),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_FALSE(work->done());
    EXPECT_FALSE(work->event().done());
    EXPECT_THAT(world.Health(), IsOk());
    gate.Complete(absl::OkStatus());
    return Finish(world, work);
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, DroppingAWorkNeitherCancelsNorWaits) {
  std::vector<int32_t> sums(ranks(), -1);
  const std::vector<int32_t> ones(ranks(), 1);
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const size_t rank = IndexOf(world.rank());
    EventSource gate(world.runtime());
    {
      const absl::StatusOr<Work> dropped =
          world.AllReduce(ConstBuffer::Of(std::span(&ones[rank], 1)),
                          MutableBuffer::Of(std::span(&sums[rank], 1)),
                          Reduction::Sum(), {.ready = {gate.event()}});
      if (!dropped.ok()) return dropped.status();
    }
    gate.Complete(absl::OkStatus());
    // Behind the dropped one, which has ended when this has.
    return Finish(world, world.Barrier());
  });
  EXPECT_THAT(results, Each(IsOk()));
  EXPECT_THAT(sums, Each(size()));
}

}  // namespace
}  // namespace muonshard::testing
