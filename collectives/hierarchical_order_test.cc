// What waits for what in hierarchies over loopback, and how they end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/batch.h"
#include "collectives/hierarchical_collective.h"
#include "collectives/plugin.h"
#include "collectives/runtime/event.h"
#include "collectives/testing/hierarchy_test.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;

constexpr HierarchyShape kSquare = {2, 2};

// One segment of `kSegment` elements for each of four ranks.
constexpr int64_t kSegment = 3;
const std::vector<int64_t>& Counts() {
  static const std::vector<int64_t>* const counts =
      new std::vector<int64_t>(4, kSegment);
  return *counts;
}

// A bucket of integers and what is made of it.
class Bucket {
 public:
  explicit Bucket(int64_t value) : elements_(4 * kSegment, value) {}

  std::span<const int64_t> elements() const { return elements_; }
  ConstBuffer in() const { return ConstBuffer::Of<int64_t>(elements_); }
  MutableBuffer out() { return MutableBuffer::Of<int64_t>(elements_); }
  MutableBuffer segment(Rank rank) {
    return MutableBuffer::Of(
        std::span(elements_).subspan(IndexOf(rank) * kSegment, kSegment));
  }
  ConstBuffer segment_in(Rank rank) {
    const MutableBuffer buffer = segment(rank);
    return {buffer.data, buffer.count, buffer.type};
  }

 private:
  std::vector<int64_t> elements_;
};

class HierarchicalOrderTest : public HierarchyTest {
 protected:
  static absl::StatusOr<Work> Scatter(Collective& group, Bucket& bucket,
                                      CallOptions options = {}) {
    return group.ReduceScatterV(bucket.in(), bucket.segment(group.rank()),
                                Counts(), Reduction::Sum(), std::move(options));
  }
  static absl::StatusOr<Work> Gather(Collective& group, Bucket& bucket,
                                     CallOptions options = {}) {
    return group.AllGatherV(bucket.segment_in(group.rank()), bucket.out(),
                            Counts(), std::move(options));
  }
  // Bytes that this rank has sent within its host.
  static uint64_t SentWithinHost(RankContext& context) {
    const auto counters = context.world->Counters();
    EXPECT_THAT(counters, IsOk());
    const int32_t rank = ToInt(context.rank);
    return counters->bytes_sent_to[IndexOf(Rank{rank ^ 1})];
  }
};

// Each waits for the one before by the memory that they share; nobody waits in
// between.
TEST_P(HierarchicalOrderTest, CallsThatShareMemoryRunInOrder) {
  for (const char* const options : {"", "{\"small_bytes\": 0}"}) {
    const auto results = Run(
        kSquare,
        [](RankContext& context) -> absl::Status {
          Collective& world = *context.world;
          Bucket bucket(1);
          absl::StatusOr<Work> last;
          for (int round = 0; round < 3; ++round) {
            if (auto s = Scatter(world, bucket); !s.ok()) return s.status();
            if (auto s = world.AllReduce(bucket.segment_in(context.rank),
                                         bucket.segment(context.rank),
                                         Reduction::Sum());
                !s.ok()) {
              return s.status();
            }
            if (auto s = Gather(world, bucket); !s.ok()) return s.status();
            const Rank root{round};
            last = world.Broadcast(
                context.rank == root ? bucket.in() : ConstBuffer{},
                bucket.out(), root);
            if (!last.ok()) return last.status();
          }
          const absl::Status ended = WaitFor(context, last);
          EXPECT_THAT(bucket.elements(), Each(16 * 16 * 16));
          return ended;
        },
        options);
    EXPECT_THAT(results, Each(IsOk()));
  }
}

// The first reduction waits in its lane for a host that is late. The second one
// goes on within the host meanwhile, unless the two share memory.
TEST_P(HierarchicalOrderTest, OnlyCallsThatShareNoMemoryOverlap) {
  for (const bool shared : {false, true}) {
    SCOPED_TRACE(shared);
    const auto results = Run(kSquare, [&](RankContext& context) {
      Collective& world = *context.world;
      const bool is_late = ToInt(context.rank) >= 2;
      if (is_late) {
        for (int32_t r = 0; r < 2; ++r) {
          const auto come = context.store.Get(absl::StrCat("seen/", r),
                                              GuardDeadline(context.runtime));
          if (!come.ok()) return come.status();
        }
      }
      Bucket first(1);
      Bucket second(1);
      const absl::StatusOr<Work> before = Scatter(world, first);
      const absl::StatusOr<Work> scatter =
          Scatter(world, shared ? first : second);
      if (!is_late) {
        if (absl::Status s = MeetInStore(context, 0, 2, "posted"); !s.ok()) {
          return s;
        }
        // The other lane's segments of both hosts, of one call or of two.
        constexpr uint64_t kBytes = 2 * kSegment * sizeof(int64_t);
        EXPECT_EQ(SentWithinHost(context), shared ? kBytes : 2 * kBytes);
        if (absl::Status s = MeetInStore(context, 0, 2, "seen"); !s.ok()) {
          return s;
        }
      }
      if (absl::Status s = WaitFor(context, before); !s.ok()) return s;
      return WaitFor(context, scatter);
    });
    EXPECT_THAT(results, Each(IsOk()));
  }
}

TEST_P(HierarchicalOrderTest, ABatchOfManyKindsRunsInItsOrder) {
  const auto results = Run(kSquare, [](RankContext& context) -> absl::Status {
    Collective& world = *context.world;
    Bucket first(1);
    Bucket second(2);
    Batch batch;
    for (Bucket* const bucket : {&first, &second}) {
      if (absl::Status s =
              batch.Add(world, {.kind = OperationKind::kReduceScatterV,
                                .data_type = DataType::kI64,
                                .in = bucket->in(),
                                .out = bucket->segment(context.rank),
                                .in_counts = Counts()});
          !s.ok()) {
        return s;
      }
    }
    if (absl::Status s = batch.Add(world, {.kind = OperationKind::kBarrier});
        !s.ok()) {
      return s;
    }
    for (Bucket* const bucket : {&second, &first}) {
      if (absl::Status s =
              batch.Add(world, {.kind = OperationKind::kAllGatherV,
                                .data_type = DataType::kI64,
                                .in = bucket->segment_in(context.rank),
                                .out = bucket->out(),
                                .out_counts = Counts()});
          !s.ok()) {
        return s;
      }
    }
    const auto works = batch.Post();
    if (!works.ok()) return works.status();
    for (const Work& work : *works) {
      if (absl::Status s = work.Wait(GuardDeadline(context.runtime)); !s.ok()) {
        return s;
      }
    }
    EXPECT_THAT(first.elements(), Each(4));
    EXPECT_THAT(second.elements(), Each(8));
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

// Nobody holds the work, and memory of the size of its scratch is written over
// as soon as it could be had again.
TEST_P(HierarchicalOrderTest, ACallNeedsNobodyToHoldItsWork) {
  const auto results = Run(kSquare, [](RankContext& context) -> absl::Status {
    Collective& world = *context.world;
    Bucket bucket(5);
    EventSource gate(context.runtime);
    if (auto dropped = Scatter(world, bucket, {.ready = {gate.event()}});
        !dropped.ok()) {
      return dropped.status();
    }
    std::vector<std::vector<int64_t>> churn;
    for (int i = 0; i < 64; ++i) churn.emplace_back(2 * kSegment, -1);
    gate.Complete(absl::OkStatus());
    if (absl::Status s = WaitFor(context, world.Barrier()); !s.ok()) return s;
    EXPECT_THAT(
        bucket.elements().subspan(IndexOf(context.rank) * kSegment, kSegment),
        Each(20));
    for (const std::vector<int64_t>& each : churn) EXPECT_THAT(each, Each(-1));
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(HierarchicalOrderTest, AnAbsentRankIsADeadlineOnAllOthersAndForItself) {
  const auto results = Run(kSquare, [](RankContext& context) -> absl::Status {
    Bucket bucket(1);
    const bool is_absent = context.rank == Rank{3};
    if (!is_absent) {
      EXPECT_THAT(
          WaitFor(context, Scatter(*context.world, bucket,
                                   {.label = "hurried",
                                    .deadline = context.runtime.Now() +
                                                absl::Milliseconds(5)})),
          StatusIs(absl::StatusCode::kDeadlineExceeded));
      // The group decides for all.
      EXPECT_THAT(context.world->Health(),
                  StatusIs(absl::StatusCode::kDeadlineExceeded, "hurried"));
    }
    if (absl::Status s = MeetInStore(context, 0, 3, "over"); !s.ok()) return s;
    return WaitFor(context, Scatter(*context.world, bucket));
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kDeadlineExceeded)));
}

// Rank 0 and the one that leaves have no level in common.
TEST_P(HierarchicalOrderTest, ARankThatLeavesEndsTheCallsOfAllOthers) {
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
    const absl::StatusOr<Work> work = Scatter(*context.world, bucket);
    if (absl::Status s = context.store.Put(
            absl::StrCat("posted/", ToInt(context.rank)), "yes");
        !s.ok()) {
      return s;
    }
    EXPECT_THAT(WaitFor(context, work), StatusIs(absl::StatusCode::kAborted));
    EXPECT_THAT(Gather(*context.world, bucket),
                StatusIs(absl::StatusCode::kAborted));
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(HierarchicalOrderTest, AbortEndsTheCallsOfRanksOnNoLevelOfTheCaller) {
  const auto results = Run(kSquare, [](RankContext& context) -> absl::Status {
    Bucket bucket(1);
    EventSource never(context.runtime);
    const absl::StatusOr<Work> work =
        Scatter(*context.world, bucket,
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

// A level is lost under calls that wait for something else.
TEST_P(HierarchicalOrderTest, OneLostLaneEndsTheCallsOfAllRanks) {
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
        Scatter(*context.world, bucket, {.ready = {never.event()}});
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

TEST_P(HierarchicalOrderTest, AFailedProducerIsTheErrorOfAllRanks) {
  const auto results = Run(kSquare, [](RankContext& context) -> absl::Status {
    Bucket bucket(1);
    EventSource producer(context.runtime);
    const bool fails = context.rank == Rank{3};
    const absl::StatusOr<Work> work =
        Scatter(*context.world, bucket,
                {.ready = {fails ? producer.event() : Event()}});
    producer.Complete(absl::DataLossError("flipped bit"));
    EXPECT_FALSE(WaitFor(context, work).ok());
    return context.world->Health();
  });
  EXPECT_THAT(results,
              Each(StatusIs(absl::StatusCode::kDataLoss, "flipped bit")));
}

// Not promised for all calls, but these meet on a level.
TEST_P(HierarchicalOrderTest, RanksThatDisagreeAllHearWhatBothSidesCalled) {
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

TEST_P(HierarchicalOrderTest, ALevelThatDoesNotFitIsRefused) {
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

INSTANTIATE_TEST_SUITE_P(Runtimes, HierarchicalOrderTest,
                         ::testing::ValuesIn(BothRuntimes(10)),
                         RuntimeCaseName);

}  // namespace
}  // namespace muonshard::testing
