// The bytes of a plan are those that loopback counts: to the byte, on every
// rank, for all roles, and at one or two levels.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectives/data_type.h"
#include "collectives/level_operations.h"
#include "collectives/operation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "optimizer/group_set.h"
#include "optimizer/plan.h"
#include "optimizer/random_plan_inputs.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/optimizer_rig.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::testing::Each;

constexpr testing::RuntimeCase kSim = {.kind = testing::RuntimeCase::Kind::kSim,
                                       .seed = 1};

// One operation, and the wait for it.
absl::Status End(absl::StatusOr<Work> work, absl::Time deadline) {
  if (!work.ok()) return work.status();
  return work->Wait(deadline);
}

// Sends what a step sends for one bucket.
absl::Status TravelAsInAStep(const Plan& plan, const Bucket& bucket,
                             const GroupSet& groups, absl::Time deadline) {
  const BucketClass& bucket_class =
      plan.classes[static_cast<size_t>(bucket.bucket_class)];
  Collective& shards = groups.shards(bucket.bucket_class);
  Collective& replicas = groups.replicas(bucket.bucket_class);
  std::vector<int64_t> counts;
  for (const Segment& segment : bucket.segments)
    counts.push_back(segment.count);
  const Segment& own =
      bucket.segments[static_cast<size_t>(ToInt(shards.rank()))];
  const auto part = [&own](std::vector<std::byte>& bytes, DataType type) {
    return MutableBuffer{
        bytes.data() + static_cast<size_t>(own.offset) * ByteWidth(type),
        own.count, type};
  };
  const DataType gradient = bucket_class.gradient_dtype;
  std::vector<std::byte> gradients(static_cast<size_t>(bucket.count) *
                                   ByteWidth(gradient));
  const MutableBuffer reduced = part(gradients, gradient);
  if (absl::Status s =
          End(shards.ReduceScatterV({gradients.data(), bucket.count, gradient},
                                    reduced, counts, Reduction::Sum()),
              deadline);
      !s.ok()) {
    return s;
  }
  if (absl::Status s =
          End(replicas.AllReduce({reduced.data, own.count, gradient}, reduced,
                                 Reduction::Sum()),
              deadline);
      !s.ok()) {
    return s;
  }
  const DataType parameter = bucket_class.parameter_dtype;
  std::vector<std::byte> parameters(static_cast<size_t>(bucket.count) *
                                    ByteWidth(parameter));
  const MutableBuffer updated = part(parameters, parameter);
  return End(
      shards.AllGatherV({updated.data, own.count, parameter},
                        {parameters.data(), bucket.count, parameter}, counts),
      deadline);
}

// What `rank` sent in the groups of `plan`, by the counters of each.
WireBytes Counted(const Plan& plan, const GroupSet& groups, Rank rank) {
  WireBytes bytes;
  std::set<const Collective*> seen;
  const auto add = [&](const Collective& group,
                       const std::vector<Rank>& members) {
    if (!seen.insert(&group).second) return;
    const absl::StatusOr<CollectiveCounters> counters = group.Counters();
    ASSERT_THAT(counters, IsOk());
    for (size_t i = 0; i < members.size(); ++i) {
      const int64_t sent = static_cast<int64_t>(counters->bytes_sent_to[i]);
      bytes.sent += sent;
      if (plan.hosts.host(members[i]) != plan.hosts.host(rank)) {
        bytes.across_hosts += sent;
      }
    }
  };
  for (size_t i = 0; i < plan.classes.size(); ++i) {
    const int32_t c = static_cast<int32_t>(i);
    if (!plan.LivesOn(c, rank)) continue;
    add(groups.shards(c), plan.GroupOf(c, rank));
    add(groups.replicas(c), plan.ReplicasOf(c, rank));
  }
  return bytes;
}

// Of one step of `plan`, by rank.
std::vector<WireBytes> CountedOnLoopback(const Plan& plan) {
  std::vector<WireBytes> counted(static_cast<size_t>(plan.mesh.size()));
  const testing::RankRun run = testing::RunOnRanks(
      {.runtime = kSim, .size = plan.mesh.size()},
      [&](Collective& world) -> absl::Status {
        const absl::Time deadline = testing::GuardDeadline(world.runtime());
        absl::StatusOr<GroupSet> groups =
            GroupSet::Create(plan, world, {}, deadline);
        if (!groups.ok()) return groups.status();
        for (const Bucket& bucket : plan.buckets) {
          if (!plan.LivesOn(bucket.bucket_class, world.rank())) continue;
          if (absl::Status s = TravelAsInAStep(plan, bucket, *groups, deadline);
              !s.ok()) {
            return s;
          }
        }
        WireBytes& own = counted[static_cast<size_t>(ToInt(world.rank()))];
        own = Counted(plan, *groups, world.rank());
        EXPECT_EQ(groups->BytesSent().value_or(0),
                  static_cast<uint64_t>(own.sent));
        return absl::OkStatus();
      });
  EXPECT_THAT(run.results, Each(IsOk()));
  return counted;
}

int64_t AcrossHosts(const std::vector<WireBytes>& bytes) {
  int64_t sum = 0;
  for (const WireBytes& of_rank : bytes) sum += of_rank.across_hosts;
  return sum;
}

bool AnyIsHierarchical(const Plan& plan) {
  return std::any_of(
      plan.spreads.begin(), plan.spreads.end(),
      [](const GroupSpread& spread) { return spread.levels.hierarchical(); });
}

TEST(WireBytesTest, RandomPlansSendWhatLoopbackCounts) {
  int hierarchical = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const RandomPlanInputs inputs(seed);
    const Plan plan = MakePlan(inputs);
    hierarchical += AnyIsHierarchical(plan);
    const std::vector<WireBytes> counted = CountedOnLoopback(plan);
    for (size_t rank = 0; rank < counted.size(); ++rank) {
      EXPECT_EQ(counted[rank].sent, plan.rank_load[rank].planned.sent)
          << "seed " << seed << ", rank " << rank;
      EXPECT_EQ(counted[rank].across_hosts,
                plan.rank_load[rank].planned.across_hosts)
          << "seed " << seed << ", rank " << rank;
    }
  }
  EXPECT_GE(hierarchical, 5);
}

// What a hierarchy allocates on `rank` to reduce `bucket`.
int64_t ScratchOf(const Plan& plan, const Bucket& bucket, Rank rank) {
  const GroupLevels levels = plan.LevelsOfGroup(bucket.bucket_class, rank);
  if (!levels.hierarchical()) return 0;
  const std::vector<Rank> group = plan.GroupOf(bucket.bucket_class, rank);
  const auto place = static_cast<int32_t>(
      std::find(group.begin(), group.end(), rank) - group.begin());
  const DataType type =
      plan.classes[static_cast<size_t>(bucket.bucket_class)].gradient_dtype;
  std::vector<std::byte> gradients(static_cast<size_t>(bucket.count) *
                                   ByteWidth(type));
  Operation reduce = {.kind = OperationKind::kReduceScatterV,
                      .data_type = type,
                      .reduction = Reduction::Sum(),
                      .in = {gradients.data(), bucket.count, type}};
  for (const Segment& segment : bucket.segments) {
    reduce.in_counts.push_back(segment.count);
  }
  const Segment& own = bucket.segments[static_cast<size_t>(place)];
  reduce.out = {
      gradients.data() + static_cast<size_t>(own.offset) * ByteWidth(type),
      own.count, type};
  const HierarchicalOperation lowered =
      ToLevels(reduce, {.hosts = levels.hosts,
                        .lanes = levels.lanes,
                        .host = place / levels.lanes,
                        .lane = place % levels.lanes});
  const ConstBuffer& between = lowered.sequence.back().operations.front().in;
  EXPECT_EQ(between.data, lowered.scratch.get());
  return between.count * static_cast<int64_t>(ByteWidth(type));
}

TEST(HierarchyScratchTest, IsWhatTheReductionsOfAllBucketsAllocate) {
  int64_t all = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Plan plan = MakePlan(RandomPlanInputs(seed));
    for (int32_t r = 0; r < plan.mesh.size(); ++r) {
      int64_t want = 0;
      for (const Bucket& bucket : plan.buckets) {
        if (!plan.LivesOn(bucket.bucket_class, Rank{r})) continue;
        want += ScratchOf(plan, bucket, Rank{r});
      }
      EXPECT_EQ(plan.rank_load[static_cast<size_t>(r)].hierarchy_scratch_bytes,
                want)
          << "seed " << seed << ", rank " << r;
      all += want;
    }
  }
  EXPECT_GT(all, 0);
}

// Six parameters of all roles over two kinds of axes: data (dp, rp) and pp.
std::vector<ParameterSpec> SpecsOfAllRoles() {
  std::vector<ParameterSpec> specs;
  const auto add = [&specs](std::string name, std::vector<int64_t> shape,
                            AxisRole over_rp, AxisRole over_pp) {
    ParameterSpec spec = {.name = std::move(name), .shape = std::move(shape)};
    if (spec.shape.size() == 2) spec.rule = Rule::kMuon;
    spec.roles = {{"rp", over_rp}, {"pp", over_pp}};
    specs.push_back(std::move(spec));
  };
  add("dense", {24, 40}, AxisRole::kShard, AxisRole::kDistinct);
  add("hybrid", {16, 16}, AxisRole::kReplicate, AxisRole::kDistinct);
  add("copied", {3000}, AxisRole::kShard, AxisRole::kDuplicate);
  add("tied", {20, 12}, AxisRole::kShard, AxisRole::kPartial);
  add("expert", {12, 12}, AxisRole::kDistinct, AxisRole::kDistinct);
  add("cut", {1000}, AxisRole::kReplicate, AxisRole::kSlice);
  specs[3].coordinates = {{"pp", {0}}};
  specs[4].coordinates = {{"pp", {1}}};
  return specs;
}

constexpr char kMeshOfAllRoles[] = "rp=4,dp=2,pp=2";

Plan PlanOfAllRoles(Hierarchy hierarchy) {
  std::vector<std::string> ids;
  for (int rank = 0; rank < 16; ++rank) {
    ids.push_back(absl::StrCat("host", rank / 8));
  }
  OptimizerOptions options;
  options.plan.hierarchy = hierarchy;
  absl::StatusOr<Plan> plan =
      Plan::Create(SpecsOfAllRoles(), *Mesh::Parse(kMeshOfAllRoles),
                   HostMap::FromHostIds(ids), options);
  EXPECT_THAT(plan, IsOk());
  return *std::move(plan);
}

// The groups over rp have two ranks on each host, those over both four.
TEST(WireBytesTest, TwoLevelsSendAcrossHostsOneLanethOfWhatOneSends) {
  Plan plan = PlanOfAllRoles(Hierarchy::kOn);
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    Plan of_bucket = plan;
    of_bucket.buckets = {plan.buckets[b]};
    const int64_t c = plan.buckets[b].bucket_class;
    const BucketClass& bucket_class = plan.classes[static_cast<size_t>(c)];
    Plan flat = of_bucket;
    flat.hierarchy = Hierarchy::kOff;
    for (GroupSpread& spread : flat.spreads) spread.levels = {};
    const int64_t want = AcrossHosts(CountedOnLoopback(flat));
    const int64_t got = AcrossHosts(CountedOnLoopback(of_bucket));
    // Expert groups are on one host.
    const bool over_rp = !bucket_class.replicate_axes.empty() ||
                         bucket_class.shard_axes.size() == 2;
    EXPECT_EQ(want > 0, over_rp) << "class " << c;
    EXPECT_EQ(got * (bucket_class.shard_axes.size() == 2 ? 4 : 2), want)
        << "class " << c;
  }
}

TEST(WireBytesTest, TheSchemesThatAPlanComparesSendWhatTheirFormulasSay) {
  ParameterSpec spec = {.name = "v", .shape = {3 * kChunkCount}};
  const HostMap hosts = HostMap::FromHostIds({"a", "a", "b", "b"});
  const Plan plan = *Plan::Create({spec}, *Mesh::Parse("dp=4"), hosts, {});
  // Segments of 128, 128, 128 and 0 elements of four bytes.
  const int64_t p[] = {512, 512, 512, 0};
  const int64_t whole = 1536;
  for (size_t r = 0; r < 4; ++r) {
    const RankLoad& load = plan.rank_load[r];
    const int64_t on_host = p[r / 2 * 2] + p[r / 2 * 2 + 1];
    EXPECT_EQ(load.flat_direct.sent, (whole - p[r]) + 3 * p[r]);
    EXPECT_EQ(load.flat_direct.across_hosts, (whole - on_host) + 2 * p[r]);
    const int64_t to_next = (whole - p[r]) + (whole - p[(r + 1) % 4]);
    EXPECT_EQ(load.flat_ring.sent, to_next);
    EXPECT_EQ(load.flat_ring.across_hosts, r % 2 == 1 ? to_next : 0);
    const int64_t of_lane = p[r % 2] + p[r % 2 + 2];
    EXPECT_EQ(load.planned.sent, (whole - p[r]) + p[r] + of_lane);
    EXPECT_EQ(load.planned.across_hosts, (of_lane - p[r]) + p[r]);
  }
}

// Through the optimizer itself.
TEST(WireBytesTest, AnOptimizerSendsWhatItsPlanSays) {
  testing::ShardedCase sharded;
  sharded.mesh = kMeshOfAllRoles;
  sharded.specs = SpecsOfAllRoles();
  for (const Hierarchy hierarchy : {Hierarchy::kOff, Hierarchy::kOn}) {
    sharded.options.plan.hierarchy = hierarchy;
    const Plan plan = PlanOfAllRoles(hierarchy);
    const testing::RankRun run = testing::RunOnRanks(
        {.runtime = kSim, .size = 16}, [&](Collective& world) -> absl::Status {
          const int32_t rank = ToInt(world.rank());
          OptimizerEnvironment environment;
          environment.host_id = absl::StrCat("host", rank / 8);
          absl::StatusOr<testing::OptimizerRig> rig =
              testing::MakeRig(sharded, world, std::move(environment));
          if (!rig.ok()) return rig.status();
          for (int64_t step = 1; step <= 2; ++step) {
            if (absl::Status s = testing::TakeRigStep(sharded, world.rank(),
                                                      step, *rig->optimizer);
                !s.ok()) {
              return s;
            }
          }
          if (absl::Status s = rig->optimizer->Synchronize(); !s.ok()) return s;
          const absl::StatusOr<OptimizerStatistics> statistics =
              rig->optimizer->Statistics();
          if (!statistics.ok()) return statistics.status();
          const int64_t want =
              plan.rank_load[static_cast<size_t>(rank)].planned.sent;
          EXPECT_GT(want, 0);
          EXPECT_EQ(statistics->bucket_bytes_sent,
                    static_cast<uint64_t>(2 * want))
              << "rank " << rank;
          return testing::MeetAll(world);
        });
    EXPECT_THAT(run.results, Each(IsOk()));
  }
}

}  // namespace
}  // namespace muonshard
