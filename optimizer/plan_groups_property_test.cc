// What holds of every plan: of its groups, and of what counts in the norm.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "optimizer/random_plan_inputs.h"
#include "topology/host_map.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

class PlanGroupsTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  RandomPlanInputs inputs_{GetParam()};
  Plan plan_ = MakePlan(inputs_);
};

TEST_P(PlanGroupsTest, GroupsAndReplicasPartitionTheRanksOfAClass) {
  for (int32_t c = 0; c < static_cast<int32_t>(plan_.classes.size()); ++c) {
    const BucketClass& bucket_class = plan_.classes[static_cast<size_t>(c)];
    for (const Rank rank : RanksOf(plan_, c)) {
      const std::vector<Rank> group = plan_.GroupOf(c, rank);
      EXPECT_EQ(group.size(), static_cast<size_t>(bucket_class.group_size));
      EXPECT_EQ(std::count(group.begin(), group.end(), rank), 1);
      for (const Rank member : group) {
        EXPECT_TRUE(plan_.LivesOn(c, member));
        EXPECT_EQ(plan_.GroupOf(c, member), group);
      }
      const auto place =
          std::find(group.begin(), group.end(), rank) - group.begin();
      const std::vector<Rank> replicas = plan_.ReplicasOf(c, rank);
      EXPECT_EQ(replicas.size(),
                static_cast<size_t>(bucket_class.replica_size));
      EXPECT_EQ(std::count(replicas.begin(), replicas.end(), rank), 1);
      for (const Rank replica : replicas) {
        EXPECT_TRUE(plan_.LivesOn(c, replica));
        EXPECT_EQ(plan_.ReplicasOf(c, replica), replicas);
        EXPECT_EQ(plan_.GroupOf(c, replica)[static_cast<size_t>(place)],
                  replica);
        for (size_t axis = 0; axis < inputs_.mesh.axes().size(); ++axis) {
          const std::string& name = inputs_.mesh.axes()[axis].name;
          if (Names(bucket_class.shard_axes, name) ||
              Names(bucket_class.replicate_axes, name) ||
              Names(bucket_class.partial_axes, name)) {
            continue;
          }
          EXPECT_EQ(inputs_.mesh.Coordinates(replica)[axis],
                    inputs_.mesh.Coordinates(rank)[axis]);
        }
      }
    }
  }
}

// A place is a choice of coordinates along the axes over which a parameter has
// other values.
TEST_P(PlanGroupsTest, EachElementCountsInTheNormOncePerPlace) {
  for (size_t p = 0; p < inputs_.specs.size(); ++p) {
    const ParameterSpec& spec = inputs_.specs[p];
    // How often each element counts, by place.
    std::map<std::vector<int32_t>, std::vector<int>> counted;
    for (const Bucket& bucket : plan_.buckets) {
      if (std::count(bucket.parameters.begin(), bucket.parameters.end(),
                     static_cast<int32_t>(p)) == 0) {
        continue;
      }
      for (const Rank rank : RanksOf(plan_, bucket.bucket_class)) {
        std::vector<int32_t> place = inputs_.mesh.Coordinates(rank);
        for (size_t axis = 0; axis < place.size(); ++axis) {
          const AxisRole role = RoleOver(spec, inputs_.mesh.axes()[axis].name);
          if (role != AxisRole::kDistinct && role != AxisRole::kSlice) {
            place[axis] = 0;
          }
        }
        std::vector<int>& times = counted[place];
        times.resize(static_cast<size_t>(ElementCount(spec)), 0);
        if (!plan_.CountsInNorm(bucket.bucket_class, rank)) continue;
        const std::vector<Rank> group =
            plan_.GroupOf(bucket.bucket_class, rank);
        const auto group_rank =
            std::find(group.begin(), group.end(), rank) - group.begin();
        for (const Piece& piece : bucket.pieces) {
          if (piece.parameter != static_cast<int32_t>(p)) continue;
          if (piece.owner != group_rank) continue;
          for (int64_t i = 0; i < piece.count; ++i) {
            ++times[static_cast<size_t>(piece.parameter_offset + i)];
          }
        }
      }
    }
    size_t place_count = 1;
    for (const MeshAxis& axis : inputs_.mesh.axes()) {
      const AxisRole role = RoleOver(spec, axis.name);
      const auto at = spec.coordinates.find(axis.name);
      if (role == AxisRole::kSlice || role == AxisRole::kDistinct) {
        place_count *= at == spec.coordinates.end()
                           ? static_cast<size_t>(axis.degree)
                           : at->second.size();
      }
    }
    EXPECT_EQ(counted.size(), place_count) << "parameter " << p;
    for (const auto& [place, times] : counted) {
      EXPECT_EQ(static_cast<size_t>(std::count(times.begin(), times.end(), 1)),
                times.size())
          << "parameter " << p;
    }
  }
}

TEST_P(PlanGroupsTest, DivisorsAreTheDegreesOfTheAxesOfDifferentData) {
  int64_t want = 1;
  for (const MeshAxis& axis : inputs_.mesh.axes()) {
    for (const ParameterSpec& spec : inputs_.specs) {
      const AxisRole role = RoleOver(spec, axis.name);
      if (role != AxisRole::kShard && role != AxisRole::kReplicate) continue;
      want *= axis.degree;
      break;
    }
  }
  ASSERT_EQ(plan_.divisors.size(), inputs_.specs.size());
  for (const int64_t divisor : plan_.divisors) EXPECT_EQ(divisor, want);
}

// Copies stay equal only if the ranks that reduce them stand in one order, and
// reduce at the same levels.
TEST_P(PlanGroupsTest, DuplicatesFoldAlike) {
  for (int32_t c = 0; c < static_cast<int32_t>(plan_.classes.size()); ++c) {
    const BucketClass& bucket_class = plan_.classes[static_cast<size_t>(c)];
    const auto first_duplicate = [&](Rank rank) {
      std::vector<int32_t> coordinates = inputs_.mesh.Coordinates(rank);
      for (size_t axis = 0; axis < coordinates.size(); ++axis) {
        if (Names(bucket_class.duplicate_axes,
                  inputs_.mesh.axes()[axis].name)) {
          coordinates[axis] = 0;
        }
      }
      return inputs_.mesh.RankOf(coordinates);
    };
    const auto expect_alike = [&](std::vector<Rank> own,
                                  const GroupLevels& levels,
                                  const std::vector<Rank>& first,
                                  const GroupLevels& levels_of_first) {
      for (Rank& rank : own) rank = first_duplicate(rank);
      EXPECT_EQ(own, first);
      EXPECT_EQ(levels.hierarchical(), levels_of_first.hierarchical());
      if (levels.hierarchical()) {
        EXPECT_EQ(levels, levels_of_first);
      }
    };
    for (const Rank rank : RanksOf(plan_, c)) {
      const Rank first = first_duplicate(rank);
      expect_alike(plan_.GroupOf(c, rank), plan_.LevelsOfGroup(c, rank),
                   plan_.GroupOf(c, first), plan_.LevelsOfGroup(c, first));
      expect_alike(plan_.ReplicasOf(c, rank), plan_.LevelsOfReplicas(c, rank),
                   plan_.ReplicasOf(c, first),
                   plan_.LevelsOfReplicas(c, first));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlanGroupsTest,
                         ::testing::Range(uint64_t{0}, uint64_t{100}));

}  // namespace
}  // namespace muonshard
