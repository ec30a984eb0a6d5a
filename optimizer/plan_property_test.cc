// What holds of every plan, tried on random parameters, meshes and hosts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectives/data_type.h"
#include "gtest/gtest.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "topology/host_map.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

class RandomInputs {
 public:
  explicit RandomInputs(uint64_t seed) : random_(seed) {
    mesh = *Mesh::Parse(Pick<std::string>(
        {"", "dp=1", "dp=5", "dp=2,ep=3", "pp=2,dp=2,ep=2", "ep=4,dp=3"}));
    std::vector<std::string> ids;
    for (int32_t rank = 0; rank < mesh.size(); ++rank) {
      ids.push_back(absl::StrCat("host", Below(3)));
    }
    hosts = HostMap::FromHostIds(ids);
    const int64_t count = 1 + Below(20);
    for (int64_t i = 0; i < count; ++i) {
      specs.push_back(RandomSpec(absl::StrCat("p", i)));
    }
    options.plan.bucket_bytes_max =
        Pick<int64_t>({1, 1000, 20000, int64_t{25} << 20});
    options.plan.buckets_per_part = static_cast<int32_t>(Below(4));
  }

  Mesh mesh;
  HostMap hosts;
  std::vector<ParameterSpec> specs;
  OptimizerOptions options;

 private:
  int64_t Below(int64_t limit) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit));
  }

  template <typename T>
  T Pick(std::vector<T> choices) {
    return choices[static_cast<size_t>(
        Below(static_cast<int64_t>(choices.size())))];
  }

  int64_t Size() { return Pick<int64_t>({1, 2, 3, 16, 17, 1 + Below(70)}); }

  ParameterSpec RandomSpec(std::string name) {
    ParameterSpec spec;
    spec.name = std::move(name);
    spec.gradient_dtype = Pick<DataType>({DataType::kF32, DataType::kBF16});
    spec.dtype = Pick<DataType>({DataType::kF32, DataType::kF16});
    for (const MeshAxis& axis : mesh.axes()) {
      spec.roles[axis.name] =
          Pick<AxisRole>({AxisRole::kShard, AxisRole::kShard,
                          AxisRole::kReplicate, AxisRole::kDistinct});
    }
    if (Below(2) == 0) {
      spec.rule = Rule::kAdamW;
      spec.shape = {Pick<int64_t>({1, 127, 128, 129, 1 + Below(5000)})};
      return spec;
    }
    spec.rule = Rule::kMuon;
    spec.shape = {Size(), Size()};
    if (Below(3) == 0) spec.shape.insert(spec.shape.begin(), 1 + Below(4));
    if (Below(3) == 0) AddBlocks(spec);
    return spec;
  }

  void AddBlocks(ParameterSpec& spec) {
    spec.blocks.dimension = static_cast<int32_t>(Below(2));
    int64_t left = spec.shape[spec.shape.size() - 2 +
                              static_cast<size_t>(spec.blocks.dimension)];
    while (left > 0) {
      const int64_t size = 1 + Below(left);
      spec.blocks.sizes.push_back(size);
      left -= size;
    }
  }

  std::mt19937_64 random_;
};

Plan MakePlan(const RandomInputs& inputs) {
  absl::StatusOr<Plan> plan =
      Plan::Create(inputs.specs, inputs.mesh, inputs.hosts, inputs.options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

class PlanPropertyTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  RandomInputs inputs_{GetParam()};
  Plan plan_ = MakePlan(inputs_);
};

TEST_P(PlanPropertyTest, EveryElementIsInExactlyOnePiece) {
  std::map<int32_t, std::vector<std::pair<int64_t, int64_t>>> runs;
  for (const Bucket& bucket : plan_.buckets) {
    for (const Piece& piece : bucket.pieces) {
      runs[piece.parameter].emplace_back(piece.parameter_offset, piece.count);
    }
  }
  for (size_t p = 0; p < inputs_.specs.size(); ++p) {
    auto& pieces = runs[static_cast<int32_t>(p)];
    std::sort(pieces.begin(), pieces.end());
    int64_t covered = 0;
    for (const auto& [offset, count] : pieces) {
      EXPECT_EQ(offset, covered) << "parameter " << p;
      EXPECT_GT(count, 0) << "parameter " << p;
      covered += count;
    }
    EXPECT_EQ(covered, ElementCount(inputs_.specs[p])) << "parameter " << p;
  }
}

TEST_P(PlanPropertyTest, PiecesLieAlignedInTheSegmentsOfTheirOwners) {
  for (const Bucket& bucket : plan_.buckets) {
    const BucketClass& bucket_class =
        plan_.classes[static_cast<size_t>(bucket.bucket_class)];
    ASSERT_EQ(bucket.segments.size(),
              static_cast<size_t>(bucket_class.group_size));
    std::vector<int64_t> used(bucket.segments.size(), 0);
    int64_t end_of_last = 0;
    for (const Piece& piece : bucket.pieces) {
      ASSERT_GE(piece.owner, 0);
      ASSERT_LT(piece.owner, bucket_class.group_size);
      const size_t owner = static_cast<size_t>(piece.owner);
      const Segment& segment = bucket.segments[owner];
      EXPECT_EQ(piece.bucket_offset % 16, 0);
      EXPECT_GE(piece.bucket_offset, end_of_last);
      EXPECT_GE(piece.bucket_offset, segment.offset);
      EXPECT_LE(piece.bucket_offset + piece.count,
                segment.offset + segment.count);
      end_of_last = piece.bucket_offset + piece.count;
      used[owner] += piece.count;
    }
    int64_t offset = 0;
    for (size_t rank = 0; rank < used.size(); ++rank) {
      const Segment& segment = bucket.segments[rank];
      EXPECT_EQ(segment.offset, offset);
      EXPECT_EQ(segment.count, used[rank] + segment.padding);
      EXPECT_GE(segment.padding, 0);
      offset += segment.count;
    }
    EXPECT_EQ(bucket.count, offset);
  }
}

TEST_P(PlanPropertyTest, UnitsAreWholeAndRunsAreCutAtChunks) {
  for (const Bucket& bucket : plan_.buckets) {
    for (const Piece& piece : bucket.pieces) {
      const ParameterSpec& spec =
          inputs_.specs[static_cast<size_t>(piece.parameter)];
      const int64_t end = piece.parameter_offset + piece.count;
      if (spec.rule == Rule::kMuon) {
        EXPECT_EQ(piece.rows * piece.cols, piece.count);
        EXPECT_EQ(piece.cols, spec.shape.back());
        continue;
      }
      EXPECT_EQ(piece.rows, 0);
      EXPECT_EQ(piece.cols, 0);
      EXPECT_EQ(piece.parameter_offset % kChunkCount, 0);
      EXPECT_TRUE(end % kChunkCount == 0 || end == ElementCount(spec));
    }
  }
}

TEST_P(PlanPropertyTest, RunsOfABucketDifferByAtMostOneChunk) {
  for (const Bucket& bucket : plan_.buckets) {
    std::vector<int64_t> chunks(bucket.segments.size(), 0);
    for (const Piece& piece : bucket.pieces) {
      if (piece.rows > 0) continue;
      chunks[static_cast<size_t>(piece.owner)] +=
          (piece.count + kChunkCount - 1) / kChunkCount;
    }
    const auto [least, most] =
        std::minmax_element(chunks.begin(), chunks.end());
    EXPECT_LE(*most - *least, 1);
  }
}

TEST_P(PlanPropertyTest, BucketsHaveOneClassAndKeepTheirLimit) {
  std::vector<int> seen(inputs_.specs.size(), 0);
  int32_t last_completing = static_cast<int32_t>(inputs_.specs.size());
  for (const Bucket& bucket : plan_.buckets) {
    const BucketClass& bucket_class =
        plan_.classes[static_cast<size_t>(bucket.bucket_class)];
    int64_t bytes = 0;
    int32_t last = static_cast<int32_t>(inputs_.specs.size());
    for (const int32_t p : bucket.parameters) {
      const ParameterSpec& spec = inputs_.specs[static_cast<size_t>(p)];
      EXPECT_LT(p, last);
      last = p;
      ++seen[static_cast<size_t>(p)];
      bytes += ElementCount(spec) *
               static_cast<int64_t>(ByteWidth(spec.gradient_dtype));
      EXPECT_EQ(spec.gradient_dtype, bucket_class.gradient_dtype);
      EXPECT_EQ(spec.dtype, bucket_class.parameter_dtype);
      for (const MeshAxis& axis : inputs_.mesh.axes()) {
        const auto count = std::count(bucket_class.shard_axes.begin(),
                                      bucket_class.shard_axes.end(), axis.name);
        EXPECT_EQ(count > 0, RoleOver(spec, axis.name) == AxisRole::kShard);
      }
    }
    EXPECT_TRUE(bytes <= inputs_.options.plan.bucket_bytes_max ||
                bucket.parameters.size() == 1);
    EXPECT_LT(last, last_completing) << "launch order";
    last_completing = last;
  }
  for (const int times : seen) EXPECT_EQ(times, 1);
}

TEST_P(PlanPropertyTest, PartsAreAllBucketsInReverse) {
  int32_t next = static_cast<int32_t>(plan_.buckets.size());
  for (size_t part = 0; part < plan_.parts.size(); ++part) {
    EXPECT_FALSE(plan_.parts[part].buckets.empty());
    for (const int32_t bucket : plan_.parts[part].buckets) {
      EXPECT_EQ(bucket, --next);
      EXPECT_EQ(plan_.buckets[static_cast<size_t>(bucket)].part,
                static_cast<int32_t>(part));
    }
  }
  EXPECT_EQ(next, 0);
}

TEST_P(PlanPropertyTest, LoadsOfRanksAreThoseOfTheirPieces) {
  for (int32_t rank = 0; rank < inputs_.mesh.size(); ++rank) {
    RankLoad want;
    for (const Bucket& bucket : plan_.buckets) {
      const BucketClass& bucket_class =
          plan_.classes[static_cast<size_t>(bucket.bucket_class)];
      const std::vector<Rank> group =
          plan_.GroupOf(bucket.bucket_class, Rank(rank));
      const auto place = std::find(group.begin(), group.end(), Rank(rank));
      ASSERT_NE(place, group.end());
      const auto group_rank = place - group.begin();
      for (const Piece& piece : bucket.pieces) {
        if (piece.owner != group_rank) continue;
        want.state_bytes += piece.count * (piece.rows > 0 ? 4 : 8);
      }
      const int64_t count =
          bucket.segments[static_cast<size_t>(group_rank)].count;
      want.reduce_bytes +=
          static_cast<int64_t>(ByteWidth(bucket_class.gradient_dtype)) *
          (bucket.count - count);
      want.gather_bytes +=
          static_cast<int64_t>(ByteWidth(bucket_class.parameter_dtype)) *
          (bucket_class.group_size - 1) * count;
    }
    const RankLoad& got = plan_.rank_load[static_cast<size_t>(rank)];
    EXPECT_EQ(got.state_bytes, want.state_bytes) << "rank " << rank;
    EXPECT_EQ(got.reduce_bytes, want.reduce_bytes) << "rank " << rank;
    EXPECT_EQ(got.gather_bytes, want.gather_bytes) << "rank " << rank;
  }
}

TEST_P(PlanPropertyTest, ReplicasHaveTheSameSegmentOfGroupsApart) {
  for (int32_t c = 0; c < static_cast<int32_t>(plan_.classes.size()); ++c) {
    const BucketClass& bucket_class = plan_.classes[static_cast<size_t>(c)];
    const auto averages_over = [&bucket_class](const std::string& axis) {
      return std::count(bucket_class.shard_axes.begin(),
                        bucket_class.shard_axes.end(), axis) +
                 std::count(bucket_class.replicate_axes.begin(),
                            bucket_class.replicate_axes.end(), axis) >
             0;
    };
    for (int32_t r = 0; r < inputs_.mesh.size(); ++r) {
      const Rank rank = Rank(r);
      const std::vector<Rank> group = plan_.GroupOf(c, rank);
      const auto place =
          std::find(group.begin(), group.end(), rank) - group.begin();
      const std::vector<Rank> replicas = plan_.ReplicasOf(c, rank);
      EXPECT_EQ(replicas.size(),
                static_cast<size_t>(bucket_class.replica_size));
      EXPECT_EQ(std::count(replicas.begin(), replicas.end(), rank), 1);
      for (const Rank replica : replicas) {
        EXPECT_EQ(plan_.ReplicasOf(c, replica), replicas);
        EXPECT_EQ(plan_.GroupOf(c, replica)[static_cast<size_t>(place)],
                  replica);
        for (size_t axis = 0; axis < inputs_.mesh.axes().size(); ++axis) {
          if (averages_over(inputs_.mesh.axes()[axis].name)) continue;
          EXPECT_EQ(inputs_.mesh.Coordinates(replica)[axis],
                    inputs_.mesh.Coordinates(rank)[axis]);
        }
      }
    }
  }
}

// An all-reduce of n elements over R ranks sends 2 n (R - 1) in all, however
// it is cut.
TEST_P(PlanPropertyTest, ReplicasSendWhatAnAllReduceTakes) {
  int64_t got = 0;
  for (const RankLoad& load : plan_.rank_load) got += load.replicate_bytes;
  int64_t want = 0;
  for (const Bucket& bucket : plan_.buckets) {
    const BucketClass& bucket_class =
        plan_.classes[static_cast<size_t>(bucket.bucket_class)];
    const int64_t ranks = bucket_class.group_size * bucket_class.replica_size;
    // Each distinct coordinate has groups of its own.
    want += inputs_.mesh.size() / ranks * 2 * bucket.count *
            (bucket_class.replica_size - 1) *
            static_cast<int64_t>(ByteWidth(bucket_class.gradient_dtype));
  }
  EXPECT_EQ(got, want);
}

TEST_P(PlanPropertyTest, NoRankIsLighterThanTheBoundsAllow) {
  EXPECT_GE(plan_.imbalance(), 1.0);
  int64_t heaviest = 0;
  for (const RankLoad& load : plan_.rank_load) {
    heaviest = std::max(heaviest, load.newton_schulz_flops);
  }
  EXPECT_GE(heaviest, plan_.whole_unit_bound);
}

TEST_P(PlanPropertyTest, SameInputsGiveTheSamePlan) {
  const Plan again = MakePlan(inputs_);
  EXPECT_EQ(again.lines, plan_.lines);
  EXPECT_EQ(again.Fingerprint(), plan_.Fingerprint());
  EXPECT_EQ(again.Report(), plan_.Report());
}

TEST_P(PlanPropertyTest, OwnersOfUnitsDoNotDependOnTheBucketSize) {
  const auto owners = [](const Plan& plan) {
    std::map<std::pair<int32_t, int64_t>, int32_t> result;
    for (const Bucket& bucket : plan.buckets) {
      for (const Piece& piece : bucket.pieces) {
        if (piece.rows == 0) continue;
        result[{piece.parameter, piece.parameter_offset}] = piece.owner;
      }
    }
    return result;
  };
  for (const int64_t bytes : {1, 3000, 1 << 30}) {
    RandomInputs other = inputs_;
    other.options.plan.bucket_bytes_max = bytes;
    EXPECT_EQ(owners(MakePlan(other)), owners(plan_));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlanPropertyTest,
                         ::testing::Range(uint64_t{0}, uint64_t{120}));

// Corners that random inputs may miss.
TEST(PlanCornerTest, MoreRanksThanUnitsLeavesSegmentsEmpty) {
  RandomInputs inputs(0);
  inputs.mesh = *Mesh::Parse("dp=9");
  inputs.hosts = HostMap::FromHostIds(std::vector<std::string>(9, "h"));
  inputs.specs = {{.name = "w", .shape = {1, 40}, .rule = Rule::kMuon},
                  {.name = "u", .shape = {40, 1}, .rule = Rule::kMuon}};
  inputs.options = {};
  const Plan plan = MakePlan(inputs);
  ASSERT_EQ(plan.buckets.size(), 1u);
  int empty = 0;
  for (const Segment& segment : plan.buckets[0].segments) {
    empty += segment.count == 0 && segment.padding == 0;
  }
  EXPECT_EQ(empty, 7);
}

TEST(PlanCornerTest, OneHugeMatrixGoesToOneRank) {
  RandomInputs inputs(0);
  inputs.mesh = *Mesh::Parse("dp=4");
  inputs.hosts = HostMap::FromHostIds({"a", "a", "b", "b"});
  inputs.specs = {
      {.name = "huge", .shape = {20000, 30000}, .rule = Rule::kMuon}};
  inputs.options = {};
  const Plan plan = MakePlan(inputs);
  ASSERT_EQ(plan.buckets.size(), 1u);
  ASSERT_EQ(plan.buckets[0].pieces.size(), 1u);
  EXPECT_EQ(plan.buckets[0].segments[0].count, int64_t{600'000'000});
  EXPECT_EQ(plan.heaviest_unit, "huge");
}

}  // namespace
}  // namespace muonshard
