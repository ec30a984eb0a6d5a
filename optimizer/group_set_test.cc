#include "optimizer/group_set.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/rank_harness.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A world that keeps the names of the groups split from it, and refuses to
// split off the one named `refused`.
class RecordingWorld final : public Collective {
 public:
  explicit RecordingWorld(Collective& world, std::string refused = "")
      : Collective(world.runtime(), world.rank(), world.size(), world.name(),
                   world.capabilities()),
        world_(world),
        refused_(std::move(refused)) {}

  absl::StatusOr<std::unique_ptr<Collective>> Split(
      int32_t color, int32_t key, absl::string_view name,
      absl::Time deadline) override {
    splits_.push_back(absl::StrCat(color < 0 ? "not in " : "", name));
    if (name == refused_) {
      return absl::UnavailableError(absl::StrCat("no room for ", name));
    }
    return world_.Split(color, key, name, deadline);
  }
  void Abort(const absl::Status& reason) override { world_.Abort(reason); }
  absl::Status Health() const override { return world_.Health(); }
  absl::StatusOr<CollectiveCounters> Counters() const override {
    return world_.Counters();
  }

  const std::vector<std::string>& splits() const { return splits_; }

 private:
  absl::StatusOr<LoweredCall> Lower(Operation operation) override {
    return LowerWith(world_, std::move(operation));
  }

  Collective& world_;
  const std::string refused_;
  std::vector<std::string> splits_;
};

using Roles = std::map<std::string, AxisRole>;

ParameterSpec Vector(std::string name, Roles roles) {
  return {.name = std::move(name), .shape = {1000}, .roles = std::move(roles)};
}

Plan MakePlan(const std::vector<ParameterSpec>& specs, const std::string& mesh,
              int32_t lanes, Hierarchy hierarchy) {
  const Mesh parsed = *Mesh::Parse(mesh);
  std::vector<std::string> ids;
  for (int32_t rank = 0; rank < parsed.size(); ++rank) {
    ids.push_back(absl::StrCat("host", rank / lanes));
  }
  OptimizerOptions options;
  options.plan.hierarchy = hierarchy;
  absl::StatusOr<Plan> plan =
      Plan::Create(specs, parsed, HostMap::FromHostIds(ids), options);
  EXPECT_THAT(plan, IsOk());
  return *std::move(plan);
}

// The splits that each rank takes part in to make the groups of `plan`.
std::vector<std::vector<std::string>> SplitsOf(const Plan& plan) {
  std::vector<std::vector<std::string>> splits(
      static_cast<size_t>(plan.mesh.size()));
  const testing::RankRun run = testing::RunOnRanks(
      {.runtime = {.kind = testing::RuntimeCase::Kind::kSim, .seed = 1},
       .size = plan.mesh.size()},
      [&](Collective& world) {
        RecordingWorld recording(world);
        const absl::Status status =
            GroupSet::Create(plan, recording, {},
                             testing::GuardDeadline(world.runtime()))
                .status();
        splits[static_cast<size_t>(ToInt(world.rank()))] = recording.splits();
        return status;
      });
  EXPECT_THAT(run.results, Each(IsOk()));
  return splits;
}

TEST(GroupSetTest, WithHierarchyOffNoFurtherSplitIsMade) {
  const std::vector<ParameterSpec> specs = {Vector("v", {})};
  EXPECT_THAT(SplitsOf(MakePlan(specs, "dp=4", 2, Hierarchy::kOff)),
              Each(ElementsAre("shards:dp", "replicas:/shards:dp")));
  EXPECT_THAT(SplitsOf(MakePlan(specs, "dp=4", 2, Hierarchy::kOn)),
              Each(ElementsAre("shards:dp", "shards:dp/host level",
                               "shards:dp/lane level", "replicas:/shards:dp")));
}

// All ranks make the same splits in the same order, whatever lives on them.
TEST(GroupSetTest, RanksWhereNothingLivesTakePartInEverySplit) {
  ParameterSpec first = Vector("first", {{"pp", AxisRole::kDistinct}});
  first.coordinates = {{"pp", {0}}};
  ParameterSpec tied =
      Vector("tied", {{"dp", AxisRole::kDistinct}, {"pp", AxisRole::kPartial}});
  tied.coordinates = {{"pp", {0, 2}}};
  const Plan plan = MakePlan({first, tied}, "pp=3,dp=4", 6, Hierarchy::kOff);
  const std::vector<std::vector<std::string>> splits = SplitsOf(plan);
  EXPECT_THAT(splits[0], ElementsAre("shards:dp", "replicas:/shards:dp",
                                     "shards:", "replicas:pp[0,2]/shards:"));
  EXPECT_THAT(splits[4],
              ElementsAre("not in shards:dp", "not in replicas:/shards:dp",
                          "not in shards:", "not in replicas:pp[0,2]/shards:"));
  EXPECT_THAT(splits[8],
              ElementsAre("not in shards:dp", "not in replicas:/shards:dp",
                          "shards:", "replicas:pp[0,2]/shards:"));
}

TEST(GroupSetTest, AFlatGroupBesideAHierarchicalOneTakesPartInItsSplits) {
  // Of the groups over dp, {0, 2, 4, 6} has two ranks on each host, and
  // {1, 3, 5, 7} three and one.
  absl::StatusOr<Plan> plan = Plan::Create(
      {Vector("v", {{"ep", AxisRole::kDistinct}})}, *Mesh::Parse("dp=4,ep=2"),
      HostMap::FromHostIds({"a", "a", "a", "a", "b", "a", "b", "b"}), {});
  ASSERT_THAT(plan, IsOk());
  const std::vector<std::vector<std::string>> splits = SplitsOf(*plan);
  EXPECT_THAT(splits[2],
              ElementsAre("shards:dp", "shards:dp/host level",
                          "shards:dp/lane level", "replicas:/shards:dp"));
  EXPECT_THAT(splits[3], ElementsAre("shards:dp", "not in shards:dp/host level",
                                     "not in shards:dp/lane level",
                                     "replicas:/shards:dp"));
}

TEST(GroupSetTest, LevelsAreSplitFromTheirOwnWorlds) {
  const Plan plan = MakePlan({Vector("v", {})}, "dp=4", 2, Hierarchy::kOn);
  const testing::RankRun run =
      testing::RunOnRanks({.size = 4}, [&](Collective& world) -> absl::Status {
        const absl::Time deadline = testing::GuardDeadline(world.runtime());
        RecordingWorld whole(world);
        RecordingWorld host(world);
        RecordingWorld lane(world);
        absl::StatusOr<GroupSet> groups = GroupSet::Create(
            plan, whole, {.host_level = &host, .lane_level = &lane}, deadline);
        if (!groups.ok()) return groups.status();
        EXPECT_THAT(whole.splits(),
                    ElementsAre("shards:dp", "replicas:/shards:dp"));
        EXPECT_THAT(host.splits(), ElementsAre("shards:dp/host level"));
        EXPECT_THAT(lane.splits(), ElementsAre("shards:dp/lane level"));
        return absl::OkStatus();
      });
  EXPECT_THAT(run.results, Each(IsOk()));
}

TEST(GroupSetTest, ASplitThatFailsIsTheErrorOfTheSetAndTheLastSplit) {
  const Plan plan = MakePlan({Vector("v", {})}, "dp=4", 2, Hierarchy::kOn);
  for (const std::string name :
       {"shards:dp", "shards:dp/host level", "shards:dp/lane level",
        "replicas:/shards:dp"}) {
    const testing::RankRun run =
        testing::RunOnRanks({.size = 4}, [&](Collective& world) {
          RecordingWorld recording(world, name);
          const absl::Status status =
              GroupSet::Create(plan, recording, {},
                               testing::GuardDeadline(world.runtime()))
                  .status();
          EXPECT_EQ(recording.splits().back(), name);
          return status;
        });
    EXPECT_THAT(run.results, Each(StatusIs(absl::StatusCode::kUnavailable,
                                           "no room for " + name)));
  }
}

// Of f32 ones, so that each rank can tell what it got.
TEST(GroupSetTest, RanksOfAGroupAreInHostThenLaneOrder) {
  const absl::StatusOr<Plan> plan =
      Plan::Create({Vector("v", {})}, *Mesh::Parse("dp=6"),
                   HostMap::FromHostIds({"a", "b", "a", "b", "b", "a"}), {});
  ASSERT_THAT(plan, IsOk());
  ASSERT_TRUE(plan->LevelsOfGroup(0, Rank(0)).hierarchical());
  std::vector<std::vector<float>> gathered(6);
  const testing::RankRun run =
      testing::RunOnRanks({.size = 6}, [&](Collective& world) -> absl::Status {
        const absl::Time deadline = testing::GuardDeadline(world.runtime());
        absl::StatusOr<GroupSet> groups =
            GroupSet::Create(*plan, world, {}, deadline);
        if (!groups.ok()) return groups.status();
        const std::vector<float> own = {
            static_cast<float>(ToInt(world.rank()))};
        std::vector<float>& all =
            gathered[static_cast<size_t>(ToInt(world.rank()))];
        all.resize(6);
        absl::StatusOr<Work> work = groups->shards(0).AllGatherV(
            ConstBuffer::Of<float>(own), MutableBuffer::Of<float>(all),
            std::vector<int64_t>(6, 1));
        if (!work.ok()) return work.status();
        return work->Wait(deadline);
      });
  EXPECT_THAT(run.results, Each(IsOk()));
  EXPECT_THAT(gathered, Each(ElementsAre(0, 2, 5, 1, 3, 4)));
}

TEST(GroupSetTest, AbortBreaksTheGroupsOfAllRanks) {
  const Plan plan = MakePlan({Vector("v", {})}, "dp=4", 2, Hierarchy::kOn);
  const testing::RankRun run =
      testing::RunOnRanks({.size = 4}, [&](Collective& world) -> absl::Status {
        const absl::Time deadline = testing::GuardDeadline(world.runtime());
        absl::StatusOr<GroupSet> groups =
            GroupSet::Create(plan, world, {}, deadline);
        if (!groups.ok()) return groups.status();
        if (world.rank() == Rank(2)) {
          groups->Abort(absl::AbortedError("rank 2 has had enough"));
        }
        std::vector<float> value = {1};
        absl::StatusOr<Work> work = groups->shards(0).AllReduce(
            ConstBuffer::Of<float>(value), MutableBuffer::Of<float>(value),
            Reduction::Sum());
        EXPECT_THAT(work.ok() ? work->Wait(deadline) : work.status(),
                    StatusIs(absl::StatusCode::kAborted, ""));
        return absl::OkStatus();
      });
  EXPECT_THAT(run.results, Each(IsOk()));
}

// What each rank of two says of an optimizer whose environment `change` made.
std::vector<absl::Status> CreateWith(
    const std::function<void(Collective& own, OptimizerEnvironment&)>& change) {
  return testing::RunOnRanks(
             {.size = 2},
             [&](Collective& world) -> absl::Status {
               // A group of this rank alone.
               absl::StatusOr<std::unique_ptr<Collective>> own =
                   world.Split(ToInt(world.rank()), 0, "own",
                               testing::GuardDeadline(world.runtime()));
               if (!own.ok()) return own.status();
               OptimizerEnvironment environment;
               if (world.rank() == Rank(1)) change(**own, environment);
               return ShardedOptimizer::Create({Vector("v", {})},
                                               *Mesh::Parse("dp=2"), world, {},
                                               std::move(environment))
                   .status();
             })
      .results;
}

TEST(GroupSetTest, AWorldOfOtherRanksIsRefusedOnAllRanks) {
  EXPECT_THAT(
      CreateWith([](Collective& own, OptimizerEnvironment& environment) {
        environment.lane_level_world = &own;
      }),
      Each(StatusIs(absl::StatusCode::kInvalidArgument,
                    "environment lane_level_world: want rank 1 of 2 as "
                    "in the world, got rank 0 of 1")));
}

TEST(GroupSetTest, AWorldThatOneRankAloneHasIsRefusedOnAllRanks) {
  std::vector<absl::Status> results;
  const testing::RankRun run =
      testing::RunOnRanks({.size = 2}, [&](Collective& world) -> absl::Status {
        OptimizerEnvironment environment;
        if (world.rank() == Rank(1)) environment.host_level_world = &world;
        return ShardedOptimizer::Create({Vector("v", {})}, *Mesh::Parse("dp=2"),
                                        world, {}, std::move(environment))
            .status();
      });
  EXPECT_THAT(run.results, Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                                         "environment host_level_world=")));
}

}  // namespace
}  // namespace muonshard
