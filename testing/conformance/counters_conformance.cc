// Counters: calls by kind, and payload bytes sent to each rank.
//
// In this file
//   P      elements in all segments;  P_i  elements of segment i
//   Q_i    elements of the segments of rank i's lane, one on each host
//   s      bytes of an element
//
// Bytes        ReduceScatterV sends s*P_i to each other rank i of the own lane
//              and s*Q_i to each other rank i of the own host. AllGatherV sends
//              s*P_r and s*Q_r there from rank r. A flat group is one lane. So
//              each moves s*P*(N - 1) in the whole group, a 1/lanes of what a
//              flat group sends between hosts. AllToAllV and Send send what
//              they are given; Recv and Barrier send none.

#include <gmock/gmock.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/conformance/collective_conformance.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

// Puts what this rank has counted at its place.
absl::Status ReadCounters(const Collective& world,
                          std::vector<CollectiveCounters>& by_rank) {
  absl::StatusOr<CollectiveCounters> counters = world.Counters();
  if (!counters.ok()) return counters.status();
  const auto ranks = static_cast<size_t>(world.size());
  EXPECT_EQ(counters->bytes_sent_to.size(), ranks);
  counters->bytes_sent_to.resize(ranks);
  by_rank[IndexOf(world.rank())] = *std::move(counters);
  return absl::OkStatus();
}

uint64_t CallsOf(const CollectiveCounters& counters, OperationKind kind) {
  return counters.calls[static_cast<size_t>(kind)];
}

uint64_t BytesOf(int64_t count, DataType type) {
  return static_cast<uint64_t>(count) * ByteWidth(type);
}

// How many elements rank `from` sends to rank `to`, of which the lane of
// `counted` has its segments.
int64_t ElementsSent(const Segments& segments, size_t lanes, size_t from,
                     size_t to, size_t counted) {
  if (from == to) return 0;
  if (from % lanes == to % lanes) return segments.count(counted);
  if (from / lanes != to / lanes) return 0;
  int64_t sum = 0;
  for (size_t r = counted % lanes; r < segments.counts().size(); r += lanes) {
    sum += segments.count(r);
  }
  return sum;
}

// Checks what each rank has sent to each. `counted` gives which of the two has
// the segments that travel.
void ExpectSent(const std::vector<CollectiveCounters>& by_rank,
                const Segments& segments, DataType type, size_t lanes,
                size_t (*counted)(size_t from, size_t to)) {
  uint64_t sum = 0;
  uint64_t between_hosts = 0;
  const size_t ranks = by_rank.size();
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < ranks; ++i) {
      const uint64_t sent = by_rank[r].bytes_sent_to[i];
      EXPECT_EQ(
          sent,
          BytesOf(ElementsSent(segments, lanes, r, i, counted(r, i)), type));
      if (r / lanes != i / lanes) between_hosts += sent;
    }
    sum += by_rank[r].bytes_sent();
  }
  EXPECT_EQ(sum, BytesOf(segments.total(), type) * (ranks - 1));
  EXPECT_EQ(between_hosts,
            BytesOf(segments.total(), type) * (ranks / lanes - 1));
}

TEST_P(CollectiveConformance, ReduceScatterSendsEachSegmentToItsRank) {
  const Capabilities promises = Promises();
  if (!promises.exact_counters) GTEST_SKIP() << "exact_counters not promised";
  for (const DataType type : PromisedDataTypes(promises)) {
    for (const Segments& segments : SegmentsToTry(ranks(), 13)) {
      SCOPED_TRACE(
          absl::StrCat(ToString(segments.counts()), " ", DataTypeName(type)));
      std::vector<CollectiveCounters> by_rank(ranks());
      const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
        const Elements in(type, segments.total());
        Elements out(type, segments.count(IndexOf(world.rank())));
        if (absl::Status s =
                Finish(world, world.ReduceScatterV(in.in(), out.out(),
                                                   segments.counts(),
                                                   Reduction::Max()));
            !s.ok()) {
          return s;
        }
        return ReadCounters(world, by_rank);
      });
      EXPECT_THAT(results, Each(IsOk()));
      ExpectSent(by_rank, segments, type, static_cast<size_t>(lanes()),
                 [](size_t, size_t to) { return to; });
    }
  }
}

TEST_P(CollectiveConformance, AllGatherSendsTheOwnSegmentToEachRank) {
  const Capabilities promises = Promises();
  if (!promises.exact_counters) GTEST_SKIP() << "exact_counters not promised";
  for (const DataType type : PromisedDataTypes(promises)) {
    for (const Segments& segments : SegmentsToTry(ranks(), 14)) {
      SCOPED_TRACE(
          absl::StrCat(ToString(segments.counts()), " ", DataTypeName(type)));
      std::vector<CollectiveCounters> by_rank(ranks());
      const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
        const Elements in(type, segments.count(IndexOf(world.rank())));
        Elements out(type, segments.total());
        if (absl::Status s = Finish(
                world, world.AllGatherV(in.in(), out.out(), segments.counts()));
            !s.ok()) {
          return s;
        }
        return ReadCounters(world, by_rank);
      });
      EXPECT_THAT(results, Each(IsOk()));
      ExpectSent(by_rank, segments, type, static_cast<size_t>(lanes()),
                 [](size_t from, size_t) { return from; });
    }
  }
}

TEST_P(CollectiveConformance, AllToAllSendsEachRankItsPart) {
  if (!Promises().exact_counters) GTEST_SKIP() << "exact_counters not promised";
  // From rank s to rank d.
  const auto sent = [](size_t s, size_t d) {
    return static_cast<int64_t>(Seed(15, s, d) % 7);
  };
  std::vector<CollectiveCounters> by_rank(ranks());
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const size_t rank = IndexOf(world.rank());
    std::vector<int64_t> in_counts;
    std::vector<int64_t> out_counts;
    for (size_t i = 0; i < ranks(); ++i) {
      in_counts.push_back(sent(rank, i));
      out_counts.push_back(sent(i, rank));
    }
    const Elements in(DataType::kF64, Segments(in_counts).total());
    Elements out(DataType::kF64, Segments(out_counts).total());
    if (absl::Status s = Finish(
            world, world.AllToAllV(in.in(), out.out(), in_counts, out_counts));
        !s.ok()) {
      return s;
    }
    return ReadCounters(world, by_rank);
  });
  EXPECT_THAT(results, Each(IsOk()));
  for (size_t s = 0; s < ranks(); ++s) {
    for (size_t d = 0; d < ranks(); ++d) {
      EXPECT_EQ(by_rank[s].bytes_sent_to[d],
                s == d ? 0 : BytesOf(sent(s, d), DataType::kF64));
    }
  }
}

TEST_P(PeerConformance, SendIsCountedAtTheSenderAndRecvSendsNothing) {
  if (!Promises().exact_counters) GTEST_SKIP() << "exact_counters not promised";
  constexpr int64_t kCount = 19;
  std::vector<CollectiveCounters> by_rank(ranks());
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    Elements elements(DataType::kI32, kCount);
    absl::Status ended;
    if (world.rank() == Rank{0}) {
      ended = Finish(world, world.Send(elements.in(), last()));
    } else if (world.rank() == last()) {
      ended = Finish(world, world.Recv(elements.out(), Rank{0}));
    }
    if (!ended.ok()) return ended;
    return ReadCounters(world, by_rank);
  });
  EXPECT_THAT(results, Each(IsOk()));
  EXPECT_EQ(by_rank[0].bytes_sent_to[IndexOf(last())],
            BytesOf(kCount, DataType::kI32));
  EXPECT_EQ(by_rank[0].bytes_sent(), BytesOf(kCount, DataType::kI32));
  EXPECT_EQ(CallsOf(by_rank[0], OperationKind::kSend), 1);
  EXPECT_EQ(by_rank[IndexOf(last())].bytes_sent(), 0);
  EXPECT_EQ(CallsOf(by_rank[IndexOf(last())], OperationKind::kRecv), 1);
}

TEST_P(CollectiveConformance, CallsAreCountedByKindAndBarriersSendNothing) {
  if (!Promises().exact_counters) GTEST_SKIP() << "exact_counters not promised";
  std::vector<CollectiveCounters> by_rank(ranks());
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    for (int i = 0; i < 3; ++i) {
      if (absl::Status s = Finish(world, world.Barrier()); !s.ok()) return s;
    }
    const Elements in(DataType::kU8, 0);
    Elements out(DataType::kU8, 0);
    if (absl::Status s = Finish(
            world, world.AllReduce(in.in(), out.out(), Reduction::Sum()));
        !s.ok()) {
      return s;
    }
    return ReadCounters(world, by_rank);
  });
  EXPECT_THAT(results, Each(IsOk()));
  for (const CollectiveCounters& counters : by_rank) {
    EXPECT_EQ(CallsOf(counters, OperationKind::kBarrier), 3);
    EXPECT_EQ(CallsOf(counters, OperationKind::kAllReduce), 1);
    EXPECT_EQ(CallsOf(counters, OperationKind::kReduceScatterV), 0);
    EXPECT_EQ(counters.bytes_sent(), 0);
  }
}

}  // namespace
}  // namespace muonshard::testing
