// What stays as it is on a network, and what does not: through the loader and
// on the simulated runtime.

#include "plugins/loopback/loopback_network_test.h"

#include <sys/mman.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/runtime/sim_scheduler.h"
#include "collectives/runtime/split_mix64.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Starts one operation of each kind and waits for all.
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

TEST_P(NetworkTest, ARankAloneWaitsForNoNetwork) {
  const RankRun run =
      RunOn("hosts=1 lanes=1 alpha_ns=1500 lane_alpha_ns=600", 1,
            [](RankContext& context) -> absl::Status {
              const Trap buffer(kCount);
              return WaitFor(context, context.world->AllReduce(
                                          buffer.In(kCount), buffer.Out(kCount),
                                          Reduction::Sum()));
            });
  EXPECT_THAT(run.results, Each(IsOk()));
  EXPECT_EQ(run.simulated, absl::ZeroDuration());
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

INSTANTIATE_TEST_SUITE_P(Seeds, NetworkTest, ::testing::ValuesIn(kThreeSeeds),
                         RuntimeCaseName);

// Tasks run until they wait, but for one choice in 200.
class SeldomSwitches : public SimScheduler {
 public:
  explicit SeldomSwitches(uint64_t seed) : random_(seed) {}

  size_t Choose(const SimChoice& choice) override {
    if (random_.Below(200) > 0) return DefaultChoice(choice);
    return random_.Below(choice.candidates.size());
  }

 private:
  SplitMix64 random_;
};

// The task of a network ends with the last plugin on it, and whoever opens the
// next one meanwhile must not be served by that.
TEST(NetworkOpenTest, OneIsOpenedWhileTheLastOneIsClosed) {
  constexpr int32_t kSize = 2;
  const auto program = [](RankContext& context) -> absl::Status {
    for (int time = 0; time < 3; ++time) {
      auto own = OpenOn(context, kFour);
      if (!own.ok()) return own.status();
      auto group = NewGroup(context, **own, kSize, absl::StrCat("group-", time),
                            GuardDeadline(context.runtime));
      if (!group.ok()) return group.status();
      absl::Status s = WaitFor(context, (*group)->Barrier());
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  };
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SeldomSwitches scheduler(seed);
    const RankRun run = RunOnRanks(
        {.runtime = {.kind = RuntimeCase::Kind::kSim, .scheduler = &scheduler},
         .size = kSize},
        program);
    EXPECT_THAT(run.results, Each(IsOk())) << "seed " << seed;
  }
}

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
