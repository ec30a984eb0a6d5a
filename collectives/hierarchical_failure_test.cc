// How hierarchies are refused, and how they end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/hierarchical_collective.h"
#include "collectives/plugin.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/runtime.h"
#include "collectives/testing/hierarchy_bucket.h"
#include "collectives/testing/hierarchy_test.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;

class HierarchicalFailureTest : public HierarchyTest {};

// What two tasks do with one level: the one that breaks it, and the one that
// drops the hierarchy meanwhile.
struct Meeting {
  explicit Meeting(Runtime& runtime) : breaking(runtime) {}
  EventSource breaking;
  std::atomic<bool> dropped = false;
  std::atomic<uint64_t> freed_by = 0;  // A task.
};

// A group that stays in its first Abort until it has been dropped, or for so
// long that it could have been.
class SlowToAbort final : public Collective {
 public:
  SlowToAbort(std::unique_ptr<Collective> group, Meeting& meeting)
      : Collective(group->runtime(), group->rank(), group->size(),
                   group->name(), group->capabilities()),
        group_(std::move(group)),
        meeting_(meeting) {}
  ~SlowToAbort() override { meeting_.freed_by = runtime().CurrentTaskId(); }

  absl::StatusOr<std::unique_ptr<Collective>> Split(
      int32_t color, int32_t key, absl::string_view name,
      absl::Time deadline) override {
    return group_->Split(color, key, name, deadline);
  }
  void Abort(const absl::Status& reason) override {
    group_->Abort(reason);
    if (meeting_.breaking.event().done()) return;
    meeting_.breaking.Complete(absl::OkStatus());
    constexpr int kYieldsMax = 1000;
    for (int i = 0; i < kYieldsMax && !meeting_.dropped; ++i) runtime().Yield();
  }
  absl::Status Health() const override { return group_->Health(); }
  absl::StatusOr<CollectiveCounters> Counters() const override {
    return group_->Counters();
  }

 private:
  absl::StatusOr<LoweredCall> Lower(Operation operation) override {
    return LowerWith(*group_, std::move(operation));
  }

  const std::unique_ptr<Collective> group_;
  Meeting& meeting_;
};

TEST_P(HierarchicalFailureTest, LevelsAreFreedByTheTaskThatDropsTheHierarchy) {
  const std::function<absl::Status(RankContext&)> program =
      [](RankContext& context) -> absl::Status {
    Meeting meeting(context.runtime);
    const auto alone = [&](std::string name) {
      return *context.plugin.NewGroup({.name = std::move(name)});
    };
    auto hierarchy = NewHierarchicalCollective(
        {.whole = std::make_unique<SlowToAbort>(alone("whole"), meeting),
         .host_level = alone("host"),
         .lane_level = alone("lane")});
    if (!hierarchy.ok()) return hierarchy.status();
    std::vector<int64_t> values(3, 1);
    EventSource producer(context.runtime);
    const absl::StatusOr<Work> work =
        (*hierarchy)
            ->AllReduce(ConstBuffer::Of<int64_t>(values),
                        MutableBuffer::Of<int64_t>(values), Reduction::Sum(),
                        {.ready = {producer.event()}});
    if (!work.ok()) return work.status();
    const std::unique_ptr<Task> task = context.runtime.Start(
        "producer", TaskKind::kProgram,
        [&producer] { producer.Complete(absl::DataLossError("flipped bit")); });
    absl::Status s =
        meeting.breaking.event().Wait(GuardDeadline(context.runtime));
    hierarchy->reset();
    // What is freed by the other task is freed after this.
    const uint64_t freed_by = meeting.freed_by;
    meeting.dropped = true;
    task->Join();
    EXPECT_EQ(freed_by, context.runtime.CurrentTaskId());
    return s;
  };
  const auto results =
      RunOnRanks({.runtime = GetParam(), .size = 1}, program).results;
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(HierarchicalFailureTest,
       AnAbsentRankIsADeadlineOnAllOthersAndForItself) {
  const auto results = Run(kSquare, [](RankContext& context) -> absl::Status {
    Bucket bucket(1);
    const bool is_absent = context.rank == Rank{3};
    if (!is_absent) {
      EXPECT_THAT(
          WaitFor(context, bucket.Scatter(*context.world,
                                          {.label = "hurried",
                                           .deadline = context.runtime.Now() +
                                                       absl::Milliseconds(5)})),
          StatusIs(absl::StatusCode::kDeadlineExceeded));
      // The group decides for all.
      EXPECT_THAT(context.world->Health(),
                  StatusIs(absl::StatusCode::kDeadlineExceeded, "hurried"));
    }
    if (absl::Status s = MeetInStore(context, 0, 3, "over"); !s.ok()) return s;
    return WaitFor(context, bucket.Scatter(*context.world));
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kDeadlineExceeded)));
}

// Rank 0 and the one that leaves have no level in common.
TEST_P(HierarchicalFailureTest, ARankThatLeavesEndsTheCallsOfAllOthers) {
  const auto results = Run(kSquare, [](RankContext& context) -> absl::Status {
    Bucket bucket(1);
    if (context.rank == Rank{3}) {
      for (int32_t r = 0; r < 3; ++r) {
        const auto come = context.store.Get(absl::StrCat("posted/", r),
                                            GuardDeadline(context.runtime));
        if (!come.ok()) return come.status();
      }
      context.world.reset();
      return absl::OkStatus();
    }
    const absl::StatusOr<Work> work = bucket.Scatter(*context.world);
    if (absl::Status s = context.store.Put(
            absl::StrCat("posted/", ToInt(context.rank)), "yes");
        !s.ok()) {
      return s;
    }
    EXPECT_THAT(WaitFor(context, work), StatusIs(absl::StatusCode::kAborted));
    EXPECT_THAT(bucket.Gather(*context.world),
                StatusIs(absl::StatusCode::kAborted));
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(HierarchicalFailureTest, AbortEndsTheCallsOfRanksOnNoLevelOfTheCaller) {
  const auto results = Run(kSquare, [](RankContext& context) -> absl::Status {
    Bucket bucket(1);
    EventSource never(context.runtime);
    const absl::StatusOr<Work> work = bucket.Scatter(
        *context.world,
        {.ready = {context.rank == Rank{3} ? never.event() : Event()}});
    if (context.rank == Rank{3}) {
      if (absl::Status s = MeetInStore(context, 0, 4, "posted"); !s.ok()) {
        return s;
      }
      context.world->Abort(absl::CancelledError("enough"));
    } else if (absl::Status s = context.store.Put(
                   absl::StrCat("posted/", ToInt(context.rank)), "yes");
               !s.ok()) {
      return s;
    }
    EXPECT_THAT(WaitFor(context, work),
                StatusIs(absl::StatusCode::kAborted, "enough"));
    return context.world->Health();
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kAborted, "enough")));
}

// Rank 1 waits for rank 3 in their lane, where no call of rank 3 can fail.
TEST_P(HierarchicalFailureTest, AbortOfARankWithoutACallEndsThoseInItsLane) {
  const auto results = Run(kSquare, [](RankContext& context) -> absl::Status {
    if (context.rank == Rank{3}) {
      absl::Status s = MeetInStore(context, 0, 4, "posted");
      if (!s.ok()) return s;
      context.world->Abort(absl::CancelledError("enough"));
      return MeetInStore(context, 0, 4, "ended");
    }
    Bucket bucket(1);
    const absl::StatusOr<Work> work =
        bucket.Scatter(*context.world,
                       {.deadline = context.runtime.Now() + absl::Seconds(20)});
    absl::Status s = MeetInStore(context, 0, 4, "posted");
    if (!s.ok()) return s;
    EXPECT_THAT(WaitFor(context, work),
                StatusIs(absl::StatusCode::kAborted, "enough"));
    return MeetInStore(context, 0, 4, "ended");
  });
  EXPECT_THAT(results, Each(IsOk()));
}

// A level is lost under calls that wait for something else.
TEST_P(HierarchicalFailureTest, OneLostLaneEndsTheCallsOfAllRanks) {
  const std::function<absl::Status(RankContext&)> program =
      [](RankContext& context) -> absl::Status {
    const int32_t rank = ToInt(context.rank);
    const auto group = [&](int32_t index, std::string name) {
      return context.plugin.NewGroup(
          {.rank = Rank{index},
           .size = 2,
           .name = std::move(name),
           .deadline = GuardDeadline(context.runtime),
           .store = &context.store});
    };
    auto host = group(rank % 2, absl::StrCat("host", rank / 2));
    if (!host.ok()) return host.status();
    auto lane = group(rank / 2, absl::StrCat("lane", rank % 2));
    if (!lane.ok()) return lane.status();
    Collective& lane_level = **lane;
    auto hierarchy =
        NewHierarchicalCollective({.whole = std::move(context.world),
                                   .host_level = *std::move(host),
                                   .lane_level = *std::move(lane)});
    if (!hierarchy.ok()) return hierarchy.status();
    context.world = *std::move(hierarchy);
    Bucket bucket(1);
    EventSource never(context.runtime);
    const absl::StatusOr<Work> work =
        bucket.Scatter(*context.world, {.ready = {never.event()}});
    if (!work.ok()) return work.status();
    if (absl::Status s = MeetInStore(context, 0, 4, "posted"); !s.ok()) {
      return s;
    }
    if (context.rank == Rank{0}) {
      lane_level.Abort(absl::UnavailableError("link down"));
    }
    EXPECT_THAT(WaitFor(context, work),
                StatusIs(absl::StatusCode::kAborted, "link down"));
    return context.world->Health();
  };
  const auto results =
      RunOnRanks({.runtime = GetParam(), .size = 4}, program).results;
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kAborted, "link down")));
}

TEST_P(HierarchicalFailureTest, AFailedProducerIsTheErrorOfAllRanks) {
  const auto results = Run(kSquare, [](RankContext& context) -> absl::Status {
    Bucket bucket(1);
    EventSource producer(context.runtime);
    const bool fails = context.rank == Rank{3};
    const absl::StatusOr<Work> work = bucket.Scatter(
        *context.world, {.ready = {fails ? producer.event() : Event()}});
    producer.Complete(absl::DataLossError("flipped bit"));
    EXPECT_FALSE(WaitFor(context, work).ok());
    return context.world->Health();
  });
  EXPECT_THAT(results,
              Each(StatusIs(absl::StatusCode::kDataLoss, "flipped bit")));
}

// Not promised for all calls, but these meet on a level.
TEST_P(HierarchicalFailureTest, RanksThatDisagreeAllHearWhatBothSidesCalled) {
  const auto results = Run(kSquare, [](RankContext& context) -> absl::Status {
    Bucket bucket(1);
    const bool is_odd = context.rank == Rank{3};
    const int64_t count = is_odd ? 4 : 6;
    const ConstBuffer in = bucket.in();
    std::vector<int64_t> out(static_cast<size_t>(count));
    EXPECT_FALSE(
        WaitFor(context,
                context.world->AllReduce(
                    {in.data, count, in.type}, MutableBuffer::Of<int64_t>(out),
                    Reduction::Sum(), {.label = is_odd ? "theirs" : "ours"}))
            .ok());
    return context.world->Health();
  });
  EXPECT_THAT(
      results,
      Each(AllOf(StatusIs(absl::StatusCode::kFailedPrecondition, "theirs"),
                 StatusIs(absl::StatusCode::kFailedPrecondition, "ours"))));
}

TEST_P(HierarchicalFailureTest, ALevelThatDoesNotFitIsRefused) {
  const std::function<absl::Status(RankContext&)> program =
      [](RankContext& context) -> absl::Status {
    const auto group = [&](int32_t rank, std::string name) {
      return *context.plugin.NewGroup(
          {.rank = Rank{rank},
           .size = 2,
           .name = std::move(name),
           .deadline = GuardDeadline(context.runtime),
           .store = &context.store});
    };
    const auto alone = [&](std::string name) {
      return *context.plugin.NewGroup({.name = std::move(name)});
    };
    const int32_t rank = ToInt(context.rank);
    // Two hosts of two lanes have no group of two ranks.
    EXPECT_THAT(
        NewHierarchicalCollective({.whole = group(rank, "a"),
                                   .host_level = group(rank, "b"),
                                   .lane_level = group(rank, "c")}),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 "wants hosts times lanes to be 2, got 2 hosts of 2 lanes"));
    // The lanes are numbered the wrong way round.
    EXPECT_THAT(NewHierarchicalCollective(
                    {.whole = group(rank, "d"),
                     .host_level = group(1 - rank, "e"),
                     .lane_level = alone(absl::StrCat("f", rank))}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("wants rank ", rank, " to be lane ", rank,
                                      " of host 0, got lane ", 1 - rank)));
    return absl::OkStatus();
  };
  const auto results =
      RunOnRanks({.runtime = GetParam(), .size = 2}, program).results;
  EXPECT_THAT(results, Each(IsOk()));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, HierarchicalFailureTest,
                         ::testing::ValuesIn(BothRuntimes(10)),
                         RuntimeCaseName);

}  // namespace
}  // namespace muonshard::testing
