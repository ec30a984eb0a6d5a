// How long operations take on a network, through the loader and on the
// simulated runtime: held to closed forms that are computed here from the
// network's own numbers.

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/hierarchical_collective.h"
#include "collectives/runtime/runtime.h"
#include "plugins/loopback/loopback_network_test.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

absl::Status TimeReduceScatter(RankContext& context, Collective& group,
                               const std::vector<int64_t>& counts,
                               double wanted) {
  const int64_t own = counts[static_cast<size_t>(ToInt(group.rank()))];
  const Trap in(SumOf(counts) + 1);
  const Trap out(own + 1);
  const absl::Time begin = context.runtime.Now();
  return Expect(Time(context,
                     group.ReduceScatterV(in.In(SumOf(counts)), out.Out(own),
                                          counts, Reduction::Sum()),
                     begin),
                wanted);
}

absl::Status TimeAllGather(RankContext& context, Collective& group,
                           const std::vector<int64_t>& counts, double wanted) {
  const int64_t own = counts[static_cast<size_t>(ToInt(group.rank()))];
  const Trap in(own + 1);
  const Trap out(SumOf(counts) + 1);
  const absl::Time begin = context.runtime.Now();
  return Expect(
      Time(context,
           group.AllGatherV(in.In(own), out.Out(SumOf(counts)), counts), begin),
      wanted);
}

absl::Status TimeAllReduce(RankContext& context, Collective& group,
                           int64_t count, double wanted) {
  const Trap buffer(count);
  const absl::Time begin = context.runtime.Now();
  return Expect(Time(context,
                     group.AllReduce(buffer.In(count), buffer.Out(count),
                                     Reduction::Sum()),
                     begin),
                wanted);
}

// Eight hosts of one lane.
constexpr char kFlat[] =
    "hosts=8 lanes=1 alpha_ns=1500 nic_gbps=400 gamma_gbps=8000 algorithm=";
constexpr double kShare = 7 * kCount * kWidth;  // (N-1)/N S.

TEST_P(NetworkTest, EachAlgorithmTakesItsClosedForm) {
  const struct {
    const char* name;
    double steps;
  } algorithms[] = {{"ring", 7}, {"halving", 3}, {"direct", 1}};
  for (const auto& algorithm : algorithms) {
    const double scatter = algorithm.steps * kAlpha + kShare * (kBeta + kGamma);
    const double gather = algorithm.steps * kAlpha + kShare * kBeta;
    const RankRun run = RunOn(
        absl::StrCat(kFlat, algorithm.name), 8, [&](RankContext& context) {
          Collective& world = *context.world;
          const std::vector<int64_t> even(8, kCount);
          absl::Status s = TimeReduceScatter(context, world, even, scatter);
          s.Update(TimeAllGather(context, world, even, gather));
          s.Update(TimeAllReduce(context, world, 8 * kCount, scatter + gather));
          return s;
        });
    EXPECT_THAT(run.results, Each(IsOk())) << algorithm.name;
  }
}

TEST_P(NetworkTest, UnevenSegmentsTakeTheirClosedForm) {
  const std::vector<int64_t> counts = {5, 0, 900'000, 7, 100, 0, 300'000, 1};
  const double largest = 7 * 900'000 * kWidth;
  for (const auto& [name, steps] : {std::pair("ring", 7), {"direct", 1}}) {
    const RankRun run =
        RunOn(absl::StrCat(kFlat, name), 8, [&](RankContext& context) {
          absl::Status s =
              TimeReduceScatter(context, *context.world, counts,
                                steps * kAlpha + largest * (kBeta + kGamma));
          s.Update(TimeAllGather(context, *context.world, counts,
                                 steps * kAlpha + largest * kBeta));
          return s;
        });
    EXPECT_THAT(run.results, Each(IsOk())) << name;
  }
}

TEST_P(NetworkTest, AStragglerHoldsUpARing) {
  const RankRun run =
      RunOn(absl::StrCat(kFlat, "ring; slow rank=3 factor=2.5"), 8,
            [&](RankContext& context) {
              return TimeReduceScatter(
                  context, *context.world, std::vector<int64_t>(8, kCount),
                  2.5 * (7 * kAlpha + kShare * (kBeta + kGamma)));
            });
  EXPECT_THAT(run.results, Each(IsOk()));
}

TEST_P(NetworkTest, AnOperationBeginsWhenItsLastRankArrives) {
  const RankRun run =
      RunOn(absl::StrCat(kFlat, "ring"), 8, [&](RankContext& context) {
        const double late = 5e6;
        if (context.rank == Rank{2}) {
          const auto mutex = context.runtime.NewMutex();
          const auto condition = context.runtime.NewCondition();
          const absl::Time until =
              context.runtime.Now() + absl::Nanoseconds(late);
          MutexLock lock(*mutex);
          while (condition->Wait(*mutex, until)) continue;
        }
        const double gather = 7 * kAlpha + kShare * kBeta;
        return TimeAllGather(context, *context.world,
                             std::vector<int64_t>(8, kCount),
                             gather + (context.rank == Rank{2} ? 0 : late));
      });
  EXPECT_THAT(run.results, Each(IsOk()));
}

TEST_P(NetworkTest, OperationsOfOneGroupFollowOneAnother) {
  const RankRun run =
      RunOn(absl::StrCat(kFlat, "ring"), 8, [&](RankContext& context) {
        const Trap buffer(kCount);
        const absl::Time begin = context.runtime.Now();
        std::vector<absl::StatusOr<Work>> works;
        for (int i = 0; i < 5; ++i) {
          works.push_back(context.world->AllReduce(
              buffer.In(kCount), buffer.Out(kCount), Reduction::Sum()));
        }
        const double one = 14 * kAlpha + kShare / 8 * (2 * kBeta + kGamma);
        return Expect(Time(context, works.back(), begin), 5 * one);
      });
  EXPECT_THAT(run.results, Each(IsOk()));
}

// Four hosts of two lanes in two racks; an up-link as fast as one interface.
constexpr char kRacks[] =
    "hosts=4 lanes=2 rack_hosts=2 alpha_ns=1500 lane_alpha_ns=600 "
    "lane_gbps=4000 nic_gbps=400 uplink_gbps=400 gamma_gbps=8000 "
    "algorithm=ring";

absl::StatusOr<std::unique_ptr<Collective>> SplitBy(RankContext& context,
                                                    int32_t color,
                                                    const std::string& name) {
  return context.world->Split(color, /*key=*/0, name,
                              GuardDeadline(context.runtime));
}

TEST_P(NetworkTest, TwoOperationsShareAnUplink) {
  const RankRun run = RunOn(kRacks, 8, [&](RankContext& context) {
    auto lane = SplitBy(context, ToInt(context.rank) % 2, "lane");
    if (!lane.ok()) return lane.status();
    // Lane 1 moves three times as much: it has half of the up-link until lane 0
    // has ended, then all of it.
    const bool large = ToInt(context.rank) % 2 == 1;
    const double bytes = 3 * kCount * kWidth;  // Of lane 0, over each link.
    return TimeAllGather(context, **lane,
                         std::vector<int64_t>(4, large ? 3 * kCount : kCount),
                         3 * kAlpha + (large ? 4 * bytes : 2 * bytes) * kBeta);
  });
  EXPECT_THAT(run.results, Each(IsOk()));
}

TEST_P(NetworkTest, ABrokenGroupLeavesItsShareOfAnUplink) {
  const RankRun run = RunOn(kRacks, 8, [&](RankContext& context) {
    auto lane = SplitBy(context, ToInt(context.rank) % 2, "lane");
    if (!lane.ok()) return lane.status();
    const double bytes = 3 * kCount * kWidth;
    const double deadline = 3 * kAlpha + bytes * kBeta;
    if (ToInt(context.rank) % 2 == 0) {
      // Alone it would have ended at the deadline. By then lane 1 has had half
      // of the up-link.
      return TimeAllGather(context, **lane, std::vector<int64_t>(4, kCount),
                           3 * kAlpha + 1.5 * bytes * kBeta);
    }
    const Trap buffer(4 * kCount);
    const absl::Status ended = WaitFor(
        context,
        (*lane)->AllReduce(
            buffer.In(4 * kCount), buffer.Out(4 * kCount), Reduction::Sum(),
            {.label = "long",
             .deadline = context.runtime.Now() + absl::Nanoseconds(deadline)}));
    EXPECT_THAT(ended, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                "deadline passed; 4 of 4 ranks arrived"));
    return absl::OkStatus();
  });
  EXPECT_THAT(run.results, Each(IsOk()));
}

TEST_P(NetworkTest, ALevelOfHostsAndALevelOfLanesTakeTheirClosedForms) {
  const RankRun run = RunOn(kRacks, 8, [&](RankContext& context) {
    auto host = SplitBy(context, ToInt(context.rank) / 2, "host");
    if (!host.ok()) return host.status();
    auto lane = SplitBy(context, ToInt(context.rank) % 2, "lane");
    if (!lane.ok()) return lane.status();
    auto hierarchy =
        NewHierarchicalCollective({.whole = std::move(context.world),
                                   .host_level = *std::move(host),
                                   .lane_level = *std::move(lane)});
    if (!hierarchy.ok()) return hierarchy.status();
    context.world = *std::move(hierarchy);
    Collective& world = *context.world;
    const double bytes = kCount * kWidth;  // Of a segment.
    // A run of two segments for each of four hosts, one after the other; then
    // both lanes at once over up-links.
    const double host_gather = 4 * (kLaneAlpha + bytes * kLaneBeta);
    const double host_scatter = host_gather + 4 * bytes * kGamma;
    const double lane_gather = 3 * kAlpha + 2 * 3 * bytes * kBeta;
    const double lane_scatter = lane_gather + 3 * bytes * kGamma;
    const std::vector<int64_t> even(8, kCount);
    absl::Status s =
        TimeReduceScatter(context, world, even, host_scatter + lane_scatter);
    s.Update(TimeAllGather(context, world, even, lane_gather + host_gather));
    // Half of the buffer on each lane: one operation of each host, and lanes
    // all-reduce 4 segments.
    const double half = 4 * bytes;
    s.Update(TimeAllReduce(context, world, 8 * kCount,
                           kLaneAlpha + half * (kLaneBeta + kGamma) +
                               lane_scatter + lane_gather + kLaneAlpha +
                               half * kLaneBeta));
    return s;
  });
  EXPECT_THAT(run.results, Each(IsOk()));
}

TEST_P(NetworkTest, AMessageRunsBesideOperationsOfAllRanks) {
  const RankRun run = RunOn(kFour, 4, [](RankContext& context) {
    Collective& world = *context.world;
    const Trap buffer(kCount);
    const absl::Time begin = context.runtime.Now();
    const bool sends = context.rank == Rank{0};
    absl::StatusOr<Work> message = world.Barrier();
    if (absl::Status s = WaitFor(context, message); !s.ok()) return s;
    const double barrier = 2 * kAlpha;
    if (sends) message = world.Send(buffer.In(kCount), Rank{1});
    if (context.rank == Rank{1})
      message = world.Recv(buffer.Out(kCount), Rank{0});
    if (absl::Status s =
            Expect(Time(context, world.Barrier(), begin), 2 * barrier);
        !s.ok()) {
      return s;
    }
    return Expect(Time(context, message, begin),
                  ToInt(context.rank) > 1
                      ? 2 * barrier
                      : barrier + kLaneAlpha + kCount * kWidth * kLaneBeta);
  });
  EXPECT_THAT(run.results, Each(IsOk()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, NetworkTest, ::testing::ValuesIn(kThreeSeeds),
                         RuntimeCaseName);

}  // namespace
}  // namespace muonshard::testing
