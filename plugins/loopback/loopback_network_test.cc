// Loopback on a network, through the loader and on the simulated runtime: how
// long operations take, and what else stays as it is with data.
//
// Times are held to closed forms that are computed here from the network's own
// numbers. An operation ends on a whole nanosecond, so each is late by at most
// one; kTolerance is ten times closer than the 1 % that a plan needs.

#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/hierarchical_collective.h"
#include "collectives/runtime/runtime.h"
#include "plugins/loopback/loopback_test.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kTolerance = 0.001;
constexpr double kWidth = 4;  // Bytes of an f32.

// Address space that nobody may read or write.
class Trap {
 public:
  explicit Trap(int64_t count)
      : bytes_(static_cast<size_t>(count) * sizeof(float)),
        data_(mmap(nullptr, bytes_, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    EXPECT_NE(data_, MAP_FAILED);
  }
  ~Trap() { munmap(data_, bytes_); }
  Trap(const Trap&) = delete;
  Trap& operator=(const Trap&) = delete;

  ConstBuffer In(int64_t count) const { return {data_, count, DataType::kF32}; }
  MutableBuffer Out(int64_t count, int64_t first = 0) const {
    return {static_cast<float*>(data_) + first, count, DataType::kF32};
  }

 private:
  const size_t bytes_;
  void* const data_;
};

int64_t SumOf(const std::vector<int64_t>& counts) {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  return sum;
}

// Runs one operation to its end and says how long it took, in nanoseconds.
absl::StatusOr<double> Time(RankContext& context,
                            const absl::StatusOr<Work>& work,
                            absl::Time begin) {
  if (absl::Status s = WaitFor(context, work); !s.ok()) return s;
  return absl::ToDoubleNanoseconds(context.runtime.Now() - begin);
}

absl::Status Expect(const absl::StatusOr<double>& time, double wanted) {
  if (!time.ok()) return time.status();
  EXPECT_NEAR(*time, wanted, wanted * kTolerance);
  return absl::OkStatus();
}

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

class NetworkTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  static RankRun RunOn(
      const std::string& network, int32_t size,
      const std::function<absl::Status(RankContext&)>& program) {
    return RunOnRanks(
        {.runtime = GetParam(),
         .size = size,
         .plugin_options = network.empty() ? ""
                                           : absl::StrCat("{\"network\": \"",
                                                          network, "\"}")},
        program);
  }
};

// Eight hosts of one lane.
constexpr char kFlat[] =
    "hosts=8 lanes=1 alpha_ns=1500 nic_gbps=400 gamma_gbps=8000 algorithm=";
constexpr double kAlpha = 1500;
constexpr double kBeta = 8.0 / 400;
constexpr double kGamma = 8.0 / 8000;
constexpr int64_t kCount = 1'000'000;
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
constexpr double kLaneAlpha = 600;
constexpr double kLaneBeta = 8.0 / 4000;

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

// Starts one operation of each kind and waits for it. `memory` gives buffers.
absl::Status RunEachKind(RankContext& context, const Trap& in,
                         const Trap& out) {
  Collective& world = *context.world;
  const int32_t rank = ToInt(context.rank);
  const Rank root{1};
  const bool is_root = context.rank == root;
  const std::vector<int64_t> counts = {10, 0, 30'000, 5};
  const int64_t own = counts[static_cast<size_t>(rank)];
  const int64_t sum = SumOf(counts);
  std::vector<absl::StatusOr<Work>> works;
  works.push_back(
      world.AllReduce(in.In(1001), out.Out(1001), Reduction::Max()));
  works.push_back(world.Reduce(in.In(999), out.Out(is_root ? 999 : 0),
                               Reduction::Average(), root));
  works.push_back(world.Broadcast(in.In(is_root ? 77 : 0), out.Out(77), root));
  works.push_back(
      world.ReduceScatterV(in.In(sum), out.Out(own), counts, Reduction::Sum()));
  works.push_back(world.AllGatherV(in.In(own), out.Out(sum), counts));
  // Rank i sends i + j to rank j.
  std::vector<int64_t> pairs;
  for (int32_t peer = 0; peer < 4; ++peer) pairs.push_back(rank + peer);
  works.push_back(world.AllToAllV(in.In(SumOf(pairs)), out.Out(SumOf(pairs)),
                                  pairs, pairs));
  works.push_back(rank % 2 == 0 ? world.Send(in.In(64), Rank{rank + 1})
                                : world.Recv(out.Out(64), Rank{rank - 1}));
  works.push_back(world.Barrier());
  for (const absl::StatusOr<Work>& work : works) {
    if (absl::Status s = WaitFor(context, work); !s.ok()) return s;
  }
  return absl::OkStatus();
}

constexpr char kFour[] =
    "hosts=2 lanes=2 alpha_ns=1500 lane_alpha_ns=600 lane_gbps=4000 "
    "nic_gbps=400";

TEST_P(NetworkTest, NoByteOfABufferIsReadOrWritten) {
  const RankRun run = RunOn(kFour, 4, [](RankContext& context) {
    return RunEachKind(context, Trap(40'000), Trap(40'000));
  });
  EXPECT_THAT(run.results, Each(IsOk()));
  EXPECT_GT(run.simulated, absl::ZeroDuration());
}

TEST_P(NetworkTest, CountersAreThoseOfARunWithData) {
  const auto counters = [](const std::string& network) {
    std::vector<CollectiveCounters> of_ranks(4);
    const RankRun run = RunOn(network, 4, [&](RankContext& context) {
      const bool data = network.empty();
      const Trap in(40'000);
      const Trap out(40'000);
      if (data) {
        for (const MutableBuffer& buffer : {in.Out(40'000), out.Out(40'000)}) {
          if (mprotect(buffer.data, 40'000 * sizeof(float),
                       PROT_READ | PROT_WRITE) != 0) {
            return absl::InternalError("mprotect");
          }
        }
      }
      if (absl::Status s = RunEachKind(context, in, out); !s.ok()) return s;
      const auto counted = context.world->Counters();
      if (!counted.ok()) return counted.status();
      of_ranks[static_cast<size_t>(ToInt(context.rank))] = *counted;
      return absl::OkStatus();
    });
    EXPECT_THAT(run.results, Each(IsOk()));
    return of_ranks;
  };
  const auto planned = counters(kFour);
  const auto real = counters("");
  for (size_t rank = 0; rank < planned.size(); ++rank) {
    EXPECT_EQ(planned[rank].calls, real[rank].calls);
    EXPECT_EQ(planned[rank].bytes_sent_to, real[rank].bytes_sent_to);
    EXPECT_GT(planned[rank].bytes_sent(), 0u);
  }
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

TEST_P(NetworkTest, RanksThatDisagreeAreToldSo) {
  const RankRun run = RunOn(kFour, 4, [](RankContext& context) {
    const Trap buffer(10);
    const int64_t count = context.rank == Rank{2} ? 9 : 10;
    return WaitFor(context,
                   context.world->AllReduce(buffer.In(count), buffer.Out(count),
                                            Reduction::Sum()));
  });
  EXPECT_THAT(run.results,
              Each(StatusIs(absl::StatusCode::kFailedPrecondition, "rank 2")));
}

TEST_P(NetworkTest, AbortEndsWhatIsOnItsWay) {
  const RankRun run = RunOn(kFour, 4, [](RankContext& context) {
    const Trap buffer(kCount);
    const auto work = context.world->AllReduce(
        buffer.In(kCount), buffer.Out(kCount), Reduction::Sum());
    if (context.rank == Rank{3}) {
      context.world->Abort(absl::AbortedError("enough"));
    }
    return WaitFor(context, work);
  });
  EXPECT_THAT(run.results,
              Each(StatusIs(absl::StatusCode::kAborted, "enough")));
}

TEST_P(NetworkTest, NothingIsPromisedOfResults) {
  const RankRun run = RunOn(kFour, 4, [](RankContext& context) {
    const Capabilities& promised = context.world->capabilities();
    EXPECT_FALSE(promised.canonical);
    EXPECT_FALSE(promised.repeatable);
    EXPECT_TRUE(promised.mismatch_detected);
    EXPECT_TRUE(promised.exact_counters);
    return absl::OkStatus();
  });
  EXPECT_THAT(run.results, Each(IsOk()));
}

absl::StatusOr<std::unique_ptr<Plugin>> OpenOn(RankContext& context,
                                               const std::string& network) {
  return Plugin::Open(
      PluginSearchFromEnvironment(
          "loopback", absl::StrCat("{\"network\": \"", network, "\"}")),
      context.runtime);
}

TEST_P(NetworkTest, PluginsOpenedOnOneNetworkShareIt) {
  const RankRun run = RunOn("", 4, [](RankContext& context) -> absl::Status {
    auto own = OpenOn(context, kFour);
    if (!own.ok()) return own.status();
    auto group =
        NewGroup(context, **own, 4, "apart", GuardDeadline(context.runtime));
    if (!group.ok()) return group.status();
    absl::Status s = Expect(
        Time(context, (*group)->Barrier(), context.runtime.Now()), 2 * kAlpha);
    s.Update(MeetInStore(context, 4, "over"));
    return s;
  });
  EXPECT_THAT(run.results, Each(IsOk()));
}

TEST_P(NetworkTest, RanksOnTwoNetworksAreAllToldSo) {
  const RankRun run = RunOn("", 3, [](RankContext& context) -> absl::Status {
    auto own = OpenOn(
        context,
        absl::StrCat(kFour, " gamma_gbps=", context.rank == Rank{1} ? 1 : 2));
    if (!own.ok()) return own.status();
    return NewGroup(context, **own, 3, "apart", GuardDeadline(context.runtime))
        .status();
  });
  EXPECT_THAT(run.results,
              Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                            "with another network than its peers")));
}

TEST_P(NetworkTest, MoreRanksThanTheNetworkHasAreRefused) {
  const RankRun run =
      RunOn(kFour, 5, [](RankContext&) { return absl::OkStatus(); });
  EXPECT_THAT(run.results,
              Each(StatusIs(absl::StatusCode::kInvalidArgument,
                            "want ranks of a network of 4, got rank ")));
}

TEST_P(NetworkTest, ABadNetworkIsRefusedWhenThePluginIsOpened) {
  const RankRun run = RunOn("hosts=1 lanes=1 nics=2", 1,
                            [](RankContext&) { return absl::OkStatus(); });
  EXPECT_THAT(run.results,
              ElementsAre(StatusIs(absl::StatusCode::kInvalidArgument,
                                   "loopback network: no key \"nics\"")));
}

TEST_P(NetworkTest, MessagesCannotBeCheckedWhereThereAreNone) {
  const RankRun run =
      RunOnRanks({.runtime = GetParam(),
                  .plugin_options = absl::StrCat(
                      "{\"checks\": 1, \"network\": \"", kFour, "\"}")},
                 [](RankContext&) { return absl::OkStatus(); });
  EXPECT_THAT(run.results,
              ElementsAre(StatusIs(absl::StatusCode::kInvalidArgument,
                                   "there are no messages to check")));
}

TEST_P(NetworkTest, ADeadRankIsNamedWhileOthersAreUnderWay) {
  const RankRun run = RunOnRanks(
      {.runtime = GetParam(),
       .size = 4,
       .plugin_options =
           absl::StrCat("{\"faults\": \"die rank=2 before=2\", \"network\": \"",
                        kFour, "\"}")},
      [](RankContext& context) {
        const Trap buffer(kCount);
        absl::Status ended;
        for (int i = 0; ended.ok() && i < 3; ++i) {
          ended = WaitFor(
              context,
              context.world->AllReduce(
                  buffer.In(kCount), buffer.Out(kCount), Reduction::Sum(),
                  {.deadline = context.runtime.Now() + absl::Seconds(1)}));
        }
        EXPECT_THAT(ended, context.rank == Rank{2}
                               ? StatusIs(absl::StatusCode::kAborted, "rank 2")
                               : StatusIs(absl::StatusCode::kDeadlineExceeded,
                                          "missing rank 2"));
        return absl::OkStatus();
      });
  EXPECT_THAT(run.results, Each(IsOk()));
}

INSTANTIATE_TEST_SUITE_P(
    Seeds, NetworkTest,
    ::testing::Values(RuntimeCase{RuntimeCase::Kind::kSim, 1},
                      RuntimeCase{RuntimeCase::Kind::kSim, 2},
                      RuntimeCase{RuntimeCase::Kind::kSim, 3}),
    RuntimeCaseName);

TEST(NetworkOnThreadsTest, AClockThatRunsByItselfIsRefused) {
  const RankRun run = RunOnRanks(
      {.size = 2,
       .plugin_options = absl::StrCat("{\"network\": \"", kFour, "\"}")},
      [](RankContext&) { return absl::OkStatus(); });
  EXPECT_THAT(run.results, Each(StatusIs(absl::StatusCode::kUnimplemented,
                                         "want a simulated runtime")));
}

}  // namespace
}  // namespace muonshard::testing
