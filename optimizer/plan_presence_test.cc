// Parameters of every role, and those that live on some ranks only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectives/data_type.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "topology/host_map.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Plan> TryPlan(const std::vector<ParameterSpec>& specs,
                             const std::string& mesh,
                             const OptimizerOptions& options = {}) {
  const Mesh parsed = *Mesh::Parse(mesh);
  return Plan::Create(specs, parsed,
                      HostMap::FromHostIds(std::vector<std::string>(
                          static_cast<size_t>(parsed.size()), "host")),
                      options);
}

Plan MakePlan(const std::vector<ParameterSpec>& specs, const std::string& mesh,
              const OptimizerOptions& options = {}) {
  absl::StatusOr<Plan> plan = TryPlan(specs, mesh, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

// Of stage `stage` of a pipeline.
ParameterSpec OfStage(int32_t stage, ParameterSpec spec) {
  spec.roles["pp"] = AxisRole::kDistinct;
  spec.coordinates["pp"] = {stage};
  return spec;
}

ParameterSpec Matrix(std::string name) {
  return {.name = std::move(name), .shape = {16, 16}, .rule = Rule::kMuon};
}

ParameterSpec Vector(std::string name, int64_t count) {
  return {.name = std::move(name), .shape = {count}, .rule = Rule::kAdamW};
}

ParameterSpec WithRole(ParameterSpec spec, const std::string& axis,
                       AxisRole role) {
  spec.roles[axis] = role;
  return spec;
}

std::vector<int32_t> RanksWhere(const Plan& plan,
                                bool (Plan::*holds)(int32_t, Rank) const) {
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < plan.mesh.size(); ++rank) {
    if ((plan.*holds)(0, Rank(rank))) ranks.push_back(rank);
  }
  return ranks;
}

int64_t FlopsOfOne() {
  return MakePlan({Matrix("w")}, "").rank_load[0].newton_schulz_flops;
}

TEST(PlanPresenceTest, StagesAreBalancedEachOnItsOwnRanks) {
  std::vector<ParameterSpec> specs;
  for (int i = 0; i < 4; ++i) {
    specs.push_back(OfStage(0, Matrix(absl::StrCat("first", i))));
  }
  for (int i = 0; i < 2; ++i) {
    specs.push_back(OfStage(1, Matrix(absl::StrCat("last", i))));
  }
  const Plan plan = MakePlan(specs, "pp=2,dp=2");
  std::vector<int64_t> units;
  for (const RankLoad& load : plan.rank_load) {
    units.push_back(load.newton_schulz_flops / FlopsOfOne());
  }
  EXPECT_THAT(units, ElementsAre(2, 2, 1, 1));
  // No plan can give the first stage's work to the last stage's ranks.
  EXPECT_DOUBLE_EQ(plan.imbalance(), 1.0);
}

TEST(PlanPresenceTest, AStageCarriesWhatAllStagesHaveIntoItsOwn) {
  // What all have goes first, one and two to a rank; the stage's own evens it
  // out.
  std::vector<ParameterSpec> specs;
  for (int i = 0; i < 3; ++i) {
    specs.push_back(
        WithRole(Matrix(absl::StrCat("all", i)), "pp", AxisRole::kDistinct));
  }
  specs.push_back(OfStage(1, Matrix("last")));
  const Plan plan = MakePlan(specs, "pp=2,dp=2");
  std::vector<int64_t> units;
  for (const RankLoad& load : plan.rank_load) {
    units.push_back(load.newton_schulz_flops / FlopsOfOne());
  }
  EXPECT_THAT(units, ElementsAre(2, 1, 2, 2));
}

TEST(PlanPresenceTest, WhereAParameterDoesNotLiveItCostsNothing) {
  const Plan plan = MakePlan(
      {OfStage(1, Matrix("w")), OfStage(1, Vector("v", 1000))}, "pp=3,dp=2");
  EXPECT_THAT(RanksWhere(plan, &Plan::LivesOn), ElementsAre(2, 3));
  for (size_t rank = 0; rank < 6; ++rank) {
    const RankLoad& load = plan.rank_load[rank];
    const bool lives = rank == 2 || rank == 3;
    EXPECT_EQ(load.state_bytes > 0, lives) << "rank " << rank;
    EXPECT_EQ(load.buffer_bytes > 0, lives) << "rank " << rank;
    EXPECT_EQ(load.planned.sent > 0, lives) << "rank " << rank;
  }
}

TEST(PlanPresenceTest, TiedWeightsAreReplicasWhereTheyLive) {
  ParameterSpec tied = WithRole(Vector("tied", 100), "pp", AxisRole::kPartial);
  tied.coordinates = {{"pp", {0, 3}}};
  const Plan plan = MakePlan({tied}, "pp=4,dp=2");
  EXPECT_THAT(plan.classes[0].partial_axes, ElementsAre("pp"));
  EXPECT_EQ(plan.classes[0].group_size, 2);
  EXPECT_EQ(plan.classes[0].replica_size, 2);
  EXPECT_THAT(RanksWhere(plan, &Plan::LivesOn), ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(plan.GroupOf(0, Rank(7)), ElementsAre(Rank(6), Rank(7)));
  EXPECT_THAT(plan.ReplicasOf(0, Rank(7)), ElementsAre(Rank(1), Rank(7)));
  EXPECT_THAT(RanksWhere(plan, &Plan::CountsInNorm), ElementsAre(0, 1));
  // Their gradients are parts of one, and are not averaged over pp.
  EXPECT_THAT(plan.divisors, ElementsAre(2));
}

TEST(PlanPresenceTest, PartialReplicasOfReplicasAreOneGroup) {
  const Plan plan =
      MakePlan({WithRole(WithRole(Vector("v", 100), "tp", AxisRole::kPartial),
                         "rp", AxisRole::kReplicate)},
               "rp=2,dp=2,tp=2");
  EXPECT_EQ(plan.classes[0].replica_size, 4);
  EXPECT_THAT(plan.ReplicasOf(0, Rank(0)),
              ElementsAre(Rank(0), Rank(1), Rank(4), Rank(5)));
  EXPECT_THAT(plan.divisors, ElementsAre(4));
}

TEST(PlanPresenceTest, DuplicatesReduceApartAndCountOnce) {
  const Plan plan = MakePlan(
      {WithRole(Vector("v", 1000), "tp", AxisRole::kDuplicate)}, "dp=2,tp=3");
  EXPECT_EQ(plan.classes[0].group_size, 2);
  EXPECT_EQ(plan.classes[0].replica_size, 1);
  EXPECT_THAT(plan.GroupOf(0, Rank(4)), ElementsAre(Rank(1), Rank(4)));
  EXPECT_THAT(plan.ReplicasOf(0, Rank(4)), ElementsAre(Rank(4)));
  EXPECT_THAT(RanksWhere(plan, &Plan::CountsInNorm), ElementsAre(0, 3));
  EXPECT_THAT(plan.divisors, ElementsAre(2));
}

TEST(PlanPresenceTest, SlicesReduceApartAndAllCount) {
  ParameterSpec spec = WithRole(Matrix("w"), "tp", AxisRole::kSlice);
  spec.blockwise = true;
  const Plan plan = MakePlan({spec}, "dp=2,tp=2");
  EXPECT_THAT(plan.GroupOf(0, Rank(3)), ElementsAre(Rank(1), Rank(3)));
  EXPECT_THAT(RanksWhere(plan, &Plan::CountsInNorm), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(plan.divisors, ElementsAre(2));
}

// What differs over an axis for one parameter divides all, and no other axis
// divides any.
TEST(PlanPresenceTest, DivisorsAreOfTheAxesOfDifferentDataAlone) {
  const std::vector<ParameterSpec> specs = {
      WithRole(WithRole(Vector("shard", 9), "tp", AxisRole::kPartial), "pp",
               AxisRole::kDistinct),
      WithRole(WithRole(Vector("copy", 9), "tp", AxisRole::kDuplicate), "pp",
               AxisRole::kDistinct),
      WithRole(WithRole(WithRole(Vector("expert", 9), "tp", AxisRole::kSlice),
                        "pp", AxisRole::kDistinct),
               "ep", AxisRole::kDistinct)};
  EXPECT_THAT(MakePlan(specs, "pp=2,dp=3,tp=5,ep=7").divisors,
              ElementsAre(21, 21, 21));
}

TEST(PlanPresenceTest, AllCoordinatesAreAsNone) {
  const ParameterSpec none = WithRole(Matrix("w"), "pp", AxisRole::kDistinct);
  ParameterSpec all = none;
  all.coordinates = {{"pp", {0, 1}}};
  EXPECT_EQ(MakePlan({none}, "pp=2,dp=2").lines,
            MakePlan({all}, "pp=2,dp=2").lines);
  ParameterSpec other = none;
  other.name = "u";
  EXPECT_EQ(MakePlan({all, other}, "pp=2,dp=2").classes.size(), 1u);
}

TEST(PlanPresenceTest, WhatFinishReducesComesLastAndIsUpdatedFirst) {
  std::vector<ParameterSpec> specs = {Vector("tied", 10), Vector("a", 10),
                                      Vector("b", 10), Vector("also", 10)};
  specs[0].check_ins = CheckIns::kSyncOnly;
  specs[3].check_ins = CheckIns::kSyncOnly;
  OptimizerOptions options;
  options.plan.bucket_bytes_max = 1;
  options.plan.buckets_per_part = 1;
  const Plan plan = MakePlan(specs, "dp=2", options);
  std::vector<int32_t> launched;
  for (const Bucket& bucket : plan.buckets) {
    launched.push_back(bucket.parameters.front());
  }
  EXPECT_THAT(launched, ElementsAre(2, 1, 3, 0));
  EXPECT_THAT(plan.parts[0].buckets, ElementsAre(3));
}

TEST(PlanPresenceTest, MastersAndBuffersAreMemory) {
  ParameterSpec narrow = Vector("v", 1280);
  narrow.dtype = DataType::kBF16;
  narrow.gradient_dtype = DataType::kF32;
  ParameterSpec matrix = Matrix("w");
  matrix.dtype = DataType::kF16;
  matrix.gradient_dtype = DataType::kF16;
  OptimizerOptions options;
  for (const bool master_weights : {true, false}) {
    options.master_weights = master_weights;
    const int64_t master = master_weights ? 4 : 0;
    const Plan plan = MakePlan({narrow, matrix}, "dp=2", options);
    // Five chunks each, and the matrix on one of the two.
    EXPECT_EQ(plan.rank_load[0].state_bytes,
              640 * (8 + master) + 256 * (4 + master));
    EXPECT_EQ(plan.rank_load[1].state_bytes, 640 * (8 + master));
    for (const RankLoad& load : plan.rank_load) {
      EXPECT_EQ(load.buffer_bytes, 1280 * (4 + 2) + 256 * (2 + 2));
    }
  }
}

TEST(PlanPresenceTest, TheMemoryCapCountsMastersOfWhatLivesOnARank) {
  ParameterSpec first = OfStage(0, Vector("first", 100 * kChunkCount));
  ParameterSpec last = OfStage(1, Vector("last", 100 * kChunkCount));
  last.dtype = DataType::kBF16;
  OptimizerOptions options;
  options.plan.rank_memory_bytes_max = 50 * kChunkCount * 12;
  EXPECT_TRUE(TryPlan({first, last}, "pp=2,dp=2", options).ok());
  --options.plan.rank_memory_bytes_max;
  EXPECT_THAT(
      std::string(
          TryPlan({first, last}, "pp=2,dp=2", options).status().message()),
      HasSubstr("rank 2 needs 76800 bytes of element-wise state"));
  options.master_weights = false;
  EXPECT_TRUE(TryPlan({first, last}, "pp=2,dp=2", options).ok());
}

TEST(PlanPresenceTest, AContradictionOfRolesIsRefused) {
  const absl::Status status =
      TryPlan({Vector("w", 4),
               WithRole(Vector("v", 4), "tp", AxisRole::kDuplicate)},
              "dp=2,tp=2")
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("parameter \"v\": roles: duplicate over axis \"tp\""));
}

}  // namespace
}  // namespace muonshard
