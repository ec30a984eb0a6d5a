// Which groups reduce in two levels, on which hosts, and what is refused.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "testing/plan_inputs.h"
#include "topology/host_map.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using ::muonshard::testing::HostsOfLanes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Roles = std::map<std::string, AxisRole>;

ParameterSpec Matrix(std::string name, Roles roles) {
  return {.name = std::move(name),
          .shape = {8, 8},
          .rule = Rule::kMuon,
          .roles = std::move(roles)};
}

// Hosts of so many consecutive ranks.
absl::StatusOr<Plan> TryPlan(const std::vector<ParameterSpec>& specs,
                             const std::string& mesh, const HostMap& hosts,
                             Hierarchy hierarchy) {
  OptimizerOptions options;
  options.plan.hierarchy = hierarchy;
  return Plan::Create(specs, *Mesh::Parse(mesh), hosts, options);
}

Plan MakePlan(const std::vector<ParameterSpec>& specs, const std::string& mesh,
              const HostMap& hosts, Hierarchy hierarchy) {
  absl::StatusOr<Plan> plan = TryPlan(specs, mesh, hosts, hierarchy);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

void ExpectRefused(const std::vector<ParameterSpec>& specs,
                   const std::string& mesh, const HostMap& hosts,
                   const std::string& reason) {
  const absl::Status status =
      TryPlan(specs, mesh, hosts, Hierarchy::kOn).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("option plan.hierarchy: want auto or off, got on: " + reason));
}

std::vector<Rank> Ranks(const std::vector<int32_t>& numbers) {
  std::vector<Rank> ranks;
  for (const int32_t number : numbers) ranks.push_back(Rank(number));
  return ranks;
}

auto Spread(bool of_replicas, int32_t group_count, GroupLevels levels,
            const std::string& flat_because) {
  return AllOf(Field(&GroupSpread::of_replicas, of_replicas),
               Field(&GroupSpread::group_count, group_count),
               Field(&GroupSpread::levels, levels),
               Field(&GroupSpread::flat_because, HasSubstr(flat_because)));
}

constexpr bool kShards = false;
constexpr bool kReplicas = true;

TEST(PlanHierarchyTest, TwelveExpertRanksOnHostsOfEightAreRefused) {
  const std::vector<ParameterSpec> specs = {Matrix("w", {})};
  const HostMap hosts = HostsOfLanes(12, 8);
  ExpectRefused(specs, "ep=12", hosts,
                "shard groups over ep: a group of 12 ranks does not factor "
                "into hosts and lanes: host \"host0\" has 8 ranks of the "
                "group, host \"host1\" has 4");
  const Plan plan = MakePlan(specs, "ep=12", hosts, Hierarchy::kAuto);
  EXPECT_FALSE(plan.LevelsOfGroup(0, Rank(0)).hierarchical());
  EXPECT_THAT(plan.spreads,
              ElementsAre(Spread(kShards, 1, {.hosts = 1, .lanes = 12},
                                 "host \"host1\" has 4")));
}

TEST(PlanHierarchyTest, StagesThatCutAHostAreRefused) {
  const HostMap hosts = HostsOfLanes(24, 8);
  ExpectRefused({Matrix("w", {{"pp", AxisRole::kDistinct}})}, "pp=2,ep=12",
                hosts, "shard groups over ep: a group of 12 ranks does not");
}

TEST(PlanHierarchyTest, NoNumberOnAnAxisIsRefusedAsSuch) {
  const std::vector<ParameterSpec> specs = {
      Matrix("dense", {}), Matrix("expert", {{"ep", AxisRole::kDistinct}})};
  const Plan plan = MakePlan(specs, "moe_sharding=2,ep=12", HostsOfLanes(24, 8),
                             Hierarchy::kOn);
  EXPECT_EQ(plan.LevelsOfGroup(0, Rank(0)),
            (GroupLevels{.hosts = 3, .lanes = 8}));
  EXPECT_THAT(plan.spreads,
              ElementsAre(Spread(kShards, 1, {.hosts = 3, .lanes = 8}, ""),
                          Spread(kShards, 12, {.hosts = 2, .lanes = 1},
                                 "1 rank on each of 2 hosts")));
  EXPECT_THAT(plan.spreads[0].flat_because, IsEmpty());
}

TEST(PlanHierarchyTest, EveryOrderOfAxesHasTheLevelsOfItsHosts) {
  struct Order {
    std::string mesh;
    GroupLevels dense;   // Over moe_sharding and ep.
    GroupLevels expert;  // Over moe_sharding.
  };
  // A host has the ranks that differ in their last three bits. Degrees are
  // powers of two, so the lanes of a group are the bits of its axes among
  // these.
  const Order orders[] = {{"moe_sharding=2,pp=2,ep=16", {4, 8}, {2, 1}},
                          {"pp=2,moe_sharding=2,ep=16", {4, 8}, {2, 1}},
                          {"moe_sharding=2,ep=16,pp=2", {8, 4}, {2, 1}},
                          {"ep=16,moe_sharding=2,pp=2", {8, 4}, {1, 2}},
                          {"pp=2,ep=16,moe_sharding=2", {4, 8}, {1, 2}},
                          {"ep=16,pp=2,moe_sharding=2", {8, 4}, {1, 2}}};
  const std::vector<ParameterSpec> specs = {
      Matrix("dense", {{"pp", AxisRole::kDistinct}}),
      Matrix("expert",
             {{"pp", AxisRole::kDistinct}, {"ep", AxisRole::kDistinct}})};
  const HostMap hosts = HostsOfLanes(64, 8);
  for (const Order& order : orders) {
    const Plan plan = MakePlan(specs, order.mesh, hosts, Hierarchy::kOn);
    for (int32_t rank = 0; rank < 64; ++rank) {
      EXPECT_EQ(plan.LevelsOfGroup(0, Rank(rank)), order.dense) << order.mesh;
      EXPECT_EQ(plan.LevelsOfGroup(1, Rank(rank)), order.expert) << order.mesh;
      const std::vector<Rank> group = plan.GroupOf(0, Rank(rank));
      for (size_t i = 0; i < group.size(); ++i) {
        const size_t lanes = static_cast<size_t>(order.dense.lanes);
        EXPECT_EQ(hosts.host(group[i]), hosts.host(group[i / lanes * lanes]));
        if (i % lanes > 0) {
          EXPECT_LT(group[i - 1], group[i]);
        }
      }
    }
  }
}

TEST(PlanHierarchyTest, HostsAreThoseThatRanksRunOn) {
  const HostMap hosts =
      HostMap::FromHostIds({"b", "a", "b", "a", "a", "b", "c", "c", "c"});
  const Plan plan = MakePlan({Matrix("w", {})}, "dp=9", hosts, Hierarchy::kOn);
  EXPECT_EQ(plan.GroupOf(0, Rank(4)), Ranks({0, 2, 5, 1, 3, 4, 6, 7, 8}));
  EXPECT_EQ(plan.LevelsOfGroup(0, Rank(4)),
            (GroupLevels{.hosts = 3, .lanes = 3}));
}

// Groups over tp take every other rank of a host: lanes of the group, not of
// the host.
TEST(PlanHierarchyTest, AGroupNeedNotHaveAllLanesOfItsHosts) {
  const Plan plan = MakePlan({Matrix("w", {{"tp", AxisRole::kDistinct}})},
                             "dp=4,tp=2", HostsOfLanes(8, 4), Hierarchy::kOn);
  EXPECT_EQ(plan.GroupOf(0, Rank(3)), Ranks({1, 3, 5, 7}));
  EXPECT_EQ(plan.LevelsOfGroup(0, Rank(3)),
            (GroupLevels{.hosts = 2, .lanes = 2}));
}

TEST(PlanHierarchyTest, WithoutAGroupOfTwoHostsAndTwoLanesOnIsRefused) {
  const std::string none =
      "no group has two ranks or more on each of two hosts or more; ";
  ExpectRefused({Matrix("w", {})}, "dp=8", HostsOfLanes(8, 8),
                none + "shard groups over dp have 8 ranks on one host");
  ExpectRefused({Matrix("w", {}), Matrix("u", {})}, "dp=4", HostsOfLanes(4, 1),
                none + "shard groups over dp have 1 rank on each of 4 hosts");
  ExpectRefused({Matrix("w", {})}, "", HostsOfLanes(1, 1),
                "no group has two ranks or more on each of two hosts or more");
  const Plan plan =
      MakePlan({Matrix("w", {})}, "dp=4", HostsOfLanes(4, 1), Hierarchy::kAuto);
  EXPECT_EQ(plan.LevelsOfGroup(0, Rank(2)),
            (GroupLevels{.hosts = 4, .lanes = 1}));
  EXPECT_THAT(plan.spreads,
              ElementsAre(Spread(kShards, 1, {.hosts = 4, .lanes = 1},
                                 "1 rank on each of 4 hosts")));
}

TEST(PlanHierarchyTest, AFlatGroupBesideAHierarchicalOneIsFlatUnderOnToo) {
  const std::vector<ParameterSpec> specs = {
      Matrix("dense", {}), Matrix("expert", {{"dp", AxisRole::kDistinct}})};
  const Plan plan =
      MakePlan(specs, "dp=2,ep=4", HostsOfLanes(8, 4), Hierarchy::kOn);
  EXPECT_THAT(plan.spreads,
              ElementsAre(Spread(kShards, 1, {.hosts = 2, .lanes = 4}, ""),
                          Spread(kShards, 2, {.hosts = 1, .lanes = 4},
                                 "4 ranks on one host")));
}

TEST(PlanHierarchyTest, ReplicasReduceInTwoLevelsToo) {
  const Plan plan = MakePlan({Matrix("w", {{"rp", AxisRole::kReplicate}})},
                             "rp=4,dp=2", HostsOfLanes(8, 4), Hierarchy::kOn);
  EXPECT_THAT(plan.spreads,
              ElementsAre(Spread(kShards, 4, {.hosts = 1, .lanes = 2},
                                 "2 ranks on one host"),
                          Spread(kReplicas, 2, {.hosts = 2, .lanes = 2}, "")));
  EXPECT_EQ(plan.ReplicasOf(0, Rank(5)), Ranks({1, 3, 5, 7}));
  EXPECT_EQ(plan.LevelsOfReplicas(0, Rank(5)),
            (GroupLevels{.hosts = 2, .lanes = 2}));
}

TEST(PlanHierarchyTest, UnequalReplicasAreRefusedByTheirAxes) {
  ParameterSpec tied = Matrix("tied", {{"pp", AxisRole::kPartial}});
  ExpectRefused({tied}, "pp=3,dp=2", HostsOfLanes(6, 4),
                "replica groups over pp: a group of 3 ranks does not factor");
  // Where the copies live, there are as many on one host as on the other.
  tied.coordinates = {{"pp", {0, 2}}};
  EXPECT_EQ(TryPlan({tied, Matrix("w", {{"pp", AxisRole::kDistinct}})},
                    "pp=3,dp=2", HostsOfLanes(6, 4), Hierarchy::kAuto)
                ->LevelsOfReplicas(0, Rank(5)),
            (GroupLevels{.hosts = 2, .lanes = 1}));
}

TEST(PlanHierarchyTest, OffAsksNoHost) {
  const Plan plan = MakePlan({Matrix("w", {})}, "dp=12", HostsOfLanes(12, 8),
                             Hierarchy::kOff);
  EXPECT_EQ(plan.LevelsOfGroup(0, Rank(2)),
            (GroupLevels{.hosts = 1, .lanes = 12}));
  EXPECT_THAT(plan.spreads,
              ElementsAre(Spread(kShards, 1, {.hosts = 1, .lanes = 12},
                                 "hierarchy is off")));
}

TEST(PlanHierarchyTest, AutoLeavesTheGroupsFlatThatDoNotFactor) {
  // Over dp, one group has two ranks on each host, the other three and one.
  const HostMap hosts =
      HostMap::FromHostIds({"a", "a", "a", "a", "b", "a", "b", "b"});
  const Plan plan = MakePlan({Matrix("w", {{"ep", AxisRole::kDistinct}})},
                             "dp=4,ep=2", hosts, Hierarchy::kAuto);
  EXPECT_EQ(plan.LevelsOfGroup(0, Rank(0)),
            (GroupLevels{.hosts = 2, .lanes = 2}));
  EXPECT_EQ(plan.LevelsOfGroup(0, Rank(1)),
            (GroupLevels{.hosts = 1, .lanes = 4}));
  EXPECT_THAT(plan.spreads,
              ElementsAre(Spread(kShards, 1, {.hosts = 2, .lanes = 2}, ""),
                          Spread(kShards, 1, {.hosts = 1, .lanes = 4},
                                 "has 3 ranks of the group")));
}

// Over dp, the first duplicate has ranks 0, 2 on one host and 4, 6 on the
// other, and the second has 1, 5 and 3, 7: they would add in other orders.
TEST(PlanHierarchyTest, DuplicatesThatLieUnlikeAreFlatAndInRankOrder) {
  const HostMap hosts =
      HostMap::FromHostIds({"a", "a", "a", "b", "b", "a", "b", "b"});
  const std::vector<ParameterSpec> specs = {
      Matrix("w", {{"tp", AxisRole::kDuplicate}}),
      Matrix("u", {{"tp", AxisRole::kDistinct}})};
  ExpectRefused(specs, "dp=4,tp=2", hosts,
                "shard groups over dp: duplicates over tp lie unlike on their "
                "hosts");
  const Plan plan = MakePlan(specs, "dp=4,tp=2", hosts, Hierarchy::kAuto);
  EXPECT_TRUE(plan.classes[0].in_rank_order);
  EXPECT_EQ(plan.GroupOf(0, Rank(1)), Ranks({1, 3, 5, 7}));
  EXPECT_FALSE(plan.LevelsOfGroup(0, Rank(1)).hierarchical());
  EXPECT_FALSE(plan.classes[1].in_rank_order);
  EXPECT_EQ(plan.GroupOf(1, Rank(1)), Ranks({1, 5, 3, 7}));
  EXPECT_TRUE(plan.LevelsOfGroup(1, Rank(1)).hierarchical());
  EXPECT_THAT(plan.spreads,
              ElementsAre(Spread(kShards, 2, {.hosts = 1, .lanes = 4},
                                 "duplicates over tp lie unlike"),
                          Spread(kShards, 2, {.hosts = 2, .lanes = 2}, "")));
}

TEST(PlanHierarchyTest, DuplicatesInOneOrderButOfOtherLevelsAreFlat) {
  // The first duplicate is on two hosts, the second on one.
  const HostMap hosts =
      HostMap::FromHostIds({"a", "c", "a", "c", "b", "c", "b", "c"});
  const Plan plan = MakePlan({Matrix("w", {{"tp", AxisRole::kDuplicate}})},
                             "dp=4,tp=2", hosts, Hierarchy::kAuto);
  EXPECT_TRUE(plan.classes[0].in_rank_order);
  EXPECT_FALSE(plan.LevelsOfGroup(0, Rank(0)).hierarchical());
  // Without levels they fold in one order, wherever they are.
  EXPECT_FALSE(MakePlan({Matrix("w", {{"tp", AxisRole::kDuplicate}})},
                        "dp=4,tp=2", hosts, Hierarchy::kOff)
                   .classes[0]
                   .in_rank_order);
}

TEST(PlanHierarchyTest, DuplicatesThatLieAlikeReduceInTwoLevels) {
  const Plan plan = MakePlan({Matrix("w", {{"tp", AxisRole::kDuplicate}})},
                             "dp=4,tp=2", HostsOfLanes(8, 4), Hierarchy::kOn);
  EXPECT_FALSE(plan.classes[0].in_rank_order);
  EXPECT_EQ(plan.LevelsOfGroup(0, Rank(7)),
            (GroupLevels{.hosts = 2, .lanes = 2}));
}

// They cannot be in two levels on these hosts anyway.
TEST(PlanHierarchyTest, UnlikeDuplicatesWithoutLevelsAreNotRefused) {
  const HostMap hosts = HostMap::FromHostIds({"a", "b", "b", "a"});
  const std::vector<ParameterSpec> specs = {
      Matrix("w", {{"tp", AxisRole::kDuplicate}})};
  const Plan plan = MakePlan(specs, "dp=2,tp=2", hosts, Hierarchy::kAuto);
  EXPECT_TRUE(plan.classes[0].in_rank_order);
  EXPECT_EQ(plan.GroupOf(0, Rank(1)), Ranks({1, 3}));
  EXPECT_THAT(plan.spreads,
              ElementsAre(Spread(kShards, 2, {.hosts = 2, .lanes = 1},
                                 "1 rank on each of 2 hosts")));
}

}  // namespace
}  // namespace muonshard
