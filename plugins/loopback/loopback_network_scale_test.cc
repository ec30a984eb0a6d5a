// A cluster of 4,096 ranks on one thread: operations of all of them, of the
// ranks of each host, and a step of sharded training.

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/hierarchical_collective.h"
#include "collectives/runtime/sim_scheduler.h"
#include "plugins/loopback/loopback_test.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

constexpr int32_t kHosts = 512;
constexpr int32_t kLanes = 8;
constexpr int32_t kRanks = kHosts * kLanes;
constexpr char kCluster[] =
    "{\"network\": \"hosts=512 lanes=8 rack_hosts=16 alpha_ns=1500 "
    "lane_alpha_ns=600 lane_gbps=3600 nic_gbps=400 uplink_gbps=3200 "
    "gamma_gbps=8000; slow rank=17 factor=2\"}";
constexpr double kAlphaNs = 1500;
constexpr double kLaneAlphaNs = 600;
constexpr double kLaneBeta = 8.0 / 3600;
constexpr double kNicBeta = 8.0 / 400;
constexpr double kGamma = 8.0 / 8000;
constexpr double kSlowFactor = 2;
constexpr double kWidth = 4;  // Bytes of an f32.

constexpr int64_t kCount = 1 << 20;  // Of a buffer that is all-reduced.
constexpr double kBytes = kCount * kWidth;

double TimeOf(const RankRun& run) {
  return absl::ToDoubleNanoseconds(run.simulated);
}

void ExpectTime(const RankRun& run, double wanted) {
  EXPECT_NEAR(TimeOf(run), wanted, wanted * 0.001);
}

// Address space without memory: nothing reads or writes it.
ConstBuffer In(int64_t count) {
  return {.data = reinterpret_cast<void*>(uintptr_t{1} << 44),
          .count = count,
          .type = DataType::kF32};
}

MutableBuffer Out(int64_t count) {
  return {.data = reinterpret_cast<void*>(uintptr_t{1} << 45),
          .count = count,
          .type = DataType::kF32};
}

// A plan is the same whoever runs first, so tasks run until they wait.
class Straight : public SimScheduler {
 public:
  size_t Choose(const SimChoice& choice) override {
    return DefaultChoice(choice);
  }
};

RankRun RunOnCluster(const std::function<absl::Status(RankContext&)>& program) {
  Straight scheduler;
  return RunOnRanks(
      {.runtime = {.kind = RuntimeCase::Kind::kSim, .scheduler = &scheduler},
       .size = kRanks,
       .plugin_options = kCluster,
       .stack_bytes = size_t{64} << 10},
      program);
}

absl::StatusOr<Work> AllReduce(Collective& group, int64_t count) {
  return group.AllReduce(In(count), Out(count), Reduction::Sum());
}

absl::StatusOr<Work> ReduceScatter(Collective& group, int64_t segment) {
  std::vector<int64_t> counts(static_cast<size_t>(group.size()), segment);
  return group.ReduceScatterV(In(segment * group.size()), Out(segment),
                              std::move(counts), Reduction::Sum());
}

absl::StatusOr<Work> AllGather(Collective& group, int64_t segment) {
  std::vector<int64_t> counts(static_cast<size_t>(group.size()), segment);
  return group.AllGatherV(In(segment), Out(segment * group.size()),
                          std::move(counts));
}

absl::StatusOr<std::unique_ptr<Collective>> Split(RankContext& context,
                                                  int32_t color,
                                                  const std::string& name) {
  return context.world->Split(color, /*key=*/0, name,
                              GuardDeadline(context.runtime));
}

absl::Status Repeat(RankContext& context, Collective& group, int times) {
  for (int i = 0; i < times; ++i) {
    if (absl::Status s = WaitFor(context, AllReduce(group, kCount)); !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

TEST(NetworkScaleTest, FortyOperationsOfAllRanks) {
  const RankRun run = RunOnCluster(
      [](RankContext& context) { return Repeat(context, *context.world, 40); });
  EXPECT_THAT(run.results, Each(IsOk()));
}

TEST(NetworkScaleTest, FortyOperationsOfEachHost) {
  const RankRun run = RunOnCluster([](RankContext& context) -> absl::Status {
    const auto host = Split(context, ToInt(context.rank) / kLanes, "host");
    if (!host.ok()) return host.status();
    return Repeat(context, **host, 40);
  });
  EXPECT_THAT(run.results, Each(IsOk()));
  // All of the last host to end is slow.
  const double steps = kLanes - 1;
  const double share = kBytes / kLanes;
  ExpectTime(run,
             40 * steps * kSlowFactor *
                 (2 * (kLaneAlphaNs + share * kLaneBeta) + share * kGamma));
}

TEST(NetworkScaleTest, SegmentsOfAllRanks) {
  const RankRun run = RunOnCluster([](RankContext& context) {
    return WaitFor(context, ReduceScatter(*context.world, kCount / kRanks));
  });
  EXPECT_THAT(run.results, Each(IsOk()));
  const double share = kBytes / kRanks;
  ExpectTime(run, (kRanks - 1) * (kAlphaNs + share * kNicBeta +
                                  share * kSlowFactor * kGamma));
}

TEST(NetworkScaleTest, AStepOverHostsAndLanes) {
  const RankRun run = RunOnCluster([](RankContext& context) -> absl::Status {
    auto host = Split(context, ToInt(context.rank) / kLanes, "host");
    if (!host.ok()) return host.status();
    auto lane = Split(context, ToInt(context.rank) % kLanes, "lane");
    if (!lane.ok()) return lane.status();
    const auto hierarchy =
        NewHierarchicalCollective({.whole = std::move(context.world),
                                   .host_level = *std::move(host),
                                   .lane_level = *std::move(lane)});
    if (!hierarchy.ok()) return hierarchy.status();
    return Repeat(context, **hierarchy, 16);
  });
  EXPECT_THAT(run.results, Each(IsOk()));
  // Whatever lanes take between hosts, the slow host scatters and gathers.
  const double share = kBytes / kLanes;
  EXPECT_GT(TimeOf(run), 16 * (kLanes - 1) * kSlowFactor * 2 *
                             (kLaneAlphaNs + share * kLaneBeta));
}

// What a step of the optimizer posts: each bucket is scattered over the ranks
// that shard it and all-reduced over replicas while later ones are made, a
// control vector goes round the world, then every bucket is gathered.
TEST(NetworkScaleTest, AStepOfShardedTraining) {
  constexpr int32_t kShards = 64;
  constexpr int kBuckets = 24;
  constexpr int64_t kSegment = 100'000;
  const RankRun run = RunOnCluster([](RankContext& context) -> absl::Status {
    const int32_t rank = ToInt(context.rank);
    const auto shards = Split(context, rank / kShards, "shards");
    if (!shards.ok()) return shards.status();
    const auto replicas = Split(context, rank % kShards, "replicas");
    if (!replicas.ok()) return replicas.status();
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      const auto scattered = ReduceScatter(**shards, kSegment);
      if (!scattered.ok()) return scattered.status();
      const auto reduced =
          (*replicas)->AllReduce(In(kSegment), Out(kSegment), Reduction::Sum(),
                                 {.ready = {scattered->event()}});
      if (!reduced.ok()) return reduced.status();
    }
    absl::Status s = WaitFor(context, AllReduce(*context.world, 256));
    if (!s.ok()) return s;
    absl::StatusOr<Work> gathered;
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      gathered = AllGather(**shards, kSegment);
      if (!gathered.ok()) return gathered.status();
    }
    return WaitFor(context, gathered);
  });
  EXPECT_THAT(run.results, Each(IsOk()));
  // Shards are on eight hosts, so each bucket goes through interfaces twice.
  EXPECT_GT(TimeOf(run), 2 * kBuckets * (kShards - 1) *
                             (kAlphaNs + kSegment * kWidth * kNicBeta));
}

}  // namespace
}  // namespace muonshard::testing
