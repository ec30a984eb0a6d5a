// What waits for what in hierarchies.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/batch.h"
#include "collectives/hierarchical_collective.h"
#include "collectives/runtime/event.h"
#include "collectives/testing/hierarchy_bucket.h"
#include "collectives/testing/hierarchy_test.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

class HierarchicalOrderTest : public HierarchyTest {};

// Bytes that this rank has sent within its host.
uint64_t SentWithinHost(RankContext& context) {
  const auto counters = context.world->Counters();
  EXPECT_THAT(counters, IsOk());
  const int32_t other_lane = ToInt(context.rank) ^ 1;
  return counters->bytes_sent_to[IndexOf(Rank{other_lane})];
}

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
            if (auto s = bucket.Scatter(world); !s.ok()) return s.status();
            if (auto s = world.AllReduce(bucket.segment_in(context.rank),
                                         bucket.segment_out(context.rank),
                                         Reduction::Sum());
                !s.ok()) {
              return s.status();
            }
            if (auto s = bucket.Gather(world); !s.ok()) return s.status();
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
      const absl::StatusOr<Work> before = first.Scatter(world);
      const absl::StatusOr<Work> scatter =
          (shared ? first : second).Scatter(world);
      if (!is_late) {
        if (absl::Status s = MeetInStore(context, 0, 2, "posted"); !s.ok()) {
          return s;
        }
        // The other lane's segments of both hosts, of one call or of two.
        constexpr uint64_t kBytes = 2 * Bucket::kSegment * sizeof(int64_t);
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
                                .out = bucket->segment_out(context.rank),
                                .in_counts = Bucket::Counts()});
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
                                .out_counts = Bucket::Counts()});
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
    if (auto dropped = bucket.Scatter(world, {.ready = {gate.event()}});
        !dropped.ok()) {
      return dropped.status();
    }
    std::vector<std::vector<int64_t>> churn;
    for (int i = 0; i < 64; ++i) churn.emplace_back(2 * Bucket::kSegment, -1);
    gate.Complete(absl::OkStatus());
    if (absl::Status s = WaitFor(context, world.Barrier()); !s.ok()) return s;
    EXPECT_THAT(bucket.segment(context.rank), Each(20));
    for (const std::vector<int64_t>& each : churn) EXPECT_THAT(each, Each(-1));
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, HierarchicalOrderTest,
                         ::testing::ValuesIn(BothRuntimes(10)),
                         RuntimeCaseName);

}  // namespace
}  // namespace muonshard::testing
