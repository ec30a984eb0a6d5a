// What holds of every plan: of its buckets, segments and loads.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collectives/data_type.h"
#include "gtest/gtest.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "optimizer/plan_report.h"
#include "optimizer/random_plan_inputs.h"
#include "topology/host_map.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

class PlanPropertyTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  void ExpectRolesOf(const BucketClass& bucket_class,
                     const ParameterSpec& spec) const {
    for (const MeshAxis& axis : inputs_.mesh.axes()) {
      const AxisRole role = RoleOver(spec, axis.name);
      EXPECT_EQ(Names(bucket_class.shard_axes, axis.name),
                role == AxisRole::kShard);
      EXPECT_EQ(Names(bucket_class.replicate_axes, axis.name),
                role == AxisRole::kReplicate);
      EXPECT_EQ(Names(bucket_class.partial_axes, axis.name),
                role == AxisRole::kPartial);
      EXPECT_EQ(Names(bucket_class.duplicate_axes, axis.name),
                role == AxisRole::kDuplicate);
    }
  }

  RandomPlanInputs inputs_{GetParam()};
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
  bool is_for_finish = false;
  for (const Bucket& bucket : plan_.buckets) {
    const BucketClass& bucket_class =
        plan_.classes[static_cast<size_t>(bucket.bucket_class)];
    if (bucket_class.sync_only && !is_for_finish) {
      is_for_finish = true;
      last_completing = static_cast<int32_t>(inputs_.specs.size());
    }
    EXPECT_EQ(bucket_class.sync_only, is_for_finish);
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
      EXPECT_EQ(spec.check_ins == CheckIns::kSyncOnly, bucket_class.sync_only);
      ExpectRolesOf(bucket_class, spec);
      for (int32_t rank = 0; rank < inputs_.mesh.size(); ++rank) {
        EXPECT_EQ(plan_.LivesOn(bucket.bucket_class, Rank(rank)),
                  LivesOn(spec, inputs_.mesh, Rank(rank)));
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
      if (!plan_.LivesOn(bucket.bucket_class, Rank(rank))) continue;
      const BucketClass& bucket_class =
          plan_.classes[static_cast<size_t>(bucket.bucket_class)];
      const int64_t gradient_bytes =
          static_cast<int64_t>(ByteWidth(bucket_class.gradient_dtype));
      const int64_t parameter_bytes =
          static_cast<int64_t>(ByteWidth(bucket_class.parameter_dtype));
      const int64_t master_bytes =
          inputs_.options.master_weights && parameter_bytes < 4 ? 4 : 0;
      const std::vector<Rank> group =
          plan_.GroupOf(bucket.bucket_class, Rank(rank));
      const auto place = std::find(group.begin(), group.end(), Rank(rank));
      ASSERT_NE(place, group.end());
      const auto group_rank = place - group.begin();
      for (const Piece& piece : bucket.pieces) {
        if (piece.owner != group_rank) continue;
        want.state_bytes +=
            piece.count * ((piece.rows > 0 ? 4 : 8) + master_bytes);
      }
      const int64_t count =
          bucket.segments[static_cast<size_t>(group_rank)].count;
      want.reduce_bytes += gradient_bytes * (bucket.count - count);
      want.buffer_bytes += (gradient_bytes + parameter_bytes) * bucket.count;
      want.flat_direct.sent +=
          gradient_bytes * (bucket.count - count) +
          parameter_bytes * (bucket_class.group_size - 1) * count;
    }
    const RankLoad& got = plan_.rank_load[static_cast<size_t>(rank)];
    EXPECT_EQ(got.state_bytes, want.state_bytes) << "rank " << rank;
    EXPECT_EQ(got.buffer_bytes, want.buffer_bytes) << "rank " << rank;
    // A reduction in two levels sends no more than one.
    EXPECT_EQ(got.reduce_bytes, want.reduce_bytes) << "rank " << rank;
    EXPECT_EQ(got.planned.sent,
              got.reduce_bytes + got.gather_bytes + got.replicate_bytes);
    EXPECT_GE(got.flat_direct.sent, want.flat_direct.sent);
    if (inputs_.options.plan.hierarchy != Hierarchy::kOff) continue;
    EXPECT_EQ(got.planned, got.flat_direct) << "rank " << rank;
  }
}

// An all-reduce of n elements over R ranks sends 2 n (R - 1) in all, however
// it is cut and at however many levels.
TEST_P(PlanPropertyTest, ReplicasSendWhatAnAllReduceTakes) {
  int64_t got = 0;
  for (const RankLoad& load : plan_.rank_load) got += load.replicate_bytes;
  int64_t want = 0;
  for (const Bucket& bucket : plan_.buckets) {
    const BucketClass& bucket_class =
        plan_.classes[static_cast<size_t>(bucket.bucket_class)];
    const int64_t ranks =
        int64_t{bucket_class.group_size} * bucket_class.replica_size;
    // Each place has groups of its own.
    want += static_cast<int64_t>(RanksOf(plan_, bucket.bucket_class).size()) /
            ranks * 2 * bucket.count * (bucket_class.replica_size - 1) *
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
  EXPECT_EQ(PlanReport(again), PlanReport(plan_));
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
    RandomPlanInputs other = inputs_;
    other.options.plan.bucket_bytes_max = bytes;
    EXPECT_EQ(owners(MakePlan(other)), owners(plan_));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlanPropertyTest,
                         ::testing::Range(uint64_t{0}, uint64_t{120}));

// Corners that random inputs may miss.
TEST(PlanCornerTest, MoreRanksThanUnitsLeavesSegmentsEmpty) {
  RandomPlanInputs inputs(0);
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
  RandomPlanInputs inputs(0);
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
