#include "optimizer/plan.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "optimizer/compute/update.h"
#include "testing/plan_inputs.h"

namespace muonshard {
namespace {

using ::muonshard::testing::AdamW;
using ::muonshard::testing::HostsOfLanes;
using ::muonshard::testing::Muon;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Plan> TryPlan(const std::vector<ParameterSpec>& specs,
                             const std::string& mesh,
                             const OptimizerOptions& options = {}) {
  const Mesh parsed = *Mesh::Parse(mesh);
  return Plan::Create(specs, parsed, HostsOfLanes(parsed.size(), 2), options);
}

Plan MakePlan(const std::vector<ParameterSpec>& specs, const std::string& mesh,
              const OptimizerOptions& options = {}) {
  absl::StatusOr<Plan> plan = TryPlan(specs, mesh, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

OptimizerOptions BucketBytes(int64_t bucket_bytes_max) {
  OptimizerOptions options;
  options.plan.bucket_bytes_max = bucket_bytes_max;
  return options;
}

std::vector<std::vector<int32_t>> ParametersOfBuckets(const Plan& plan) {
  std::vector<std::vector<int32_t>> result;
  for (const Bucket& bucket : plan.buckets) {
    result.push_back(bucket.parameters);
  }
  return result;
}

// The pieces of parameter p, by offset.
std::vector<Piece> PiecesOf(const Plan& plan, int32_t p) {
  std::vector<Piece> pieces;
  for (const Bucket& bucket : plan.buckets) {
    for (const Piece& piece : bucket.pieces) {
      if (piece.parameter == p) pieces.push_back(piece);
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.parameter_offset < b.parameter_offset;
  });
  return pieces;
}

TEST(PlanTest, BucketsFollowReverseRegistrationAndCloseBeforeTheirLimit) {
  std::vector<ParameterSpec> specs;
  for (int i = 0; i < 5; ++i) {
    specs.push_back(AdamW(absl::StrCat("v", i), {100}));
  }
  // 400 bytes each.
  EXPECT_THAT(
      ParametersOfBuckets(MakePlan(specs, "dp=2", BucketBytes(800))),
      ElementsAre(ElementsAre(4, 3), ElementsAre(2, 1), ElementsAre(0)));
  EXPECT_THAT(ParametersOfBuckets(MakePlan(specs, "dp=2", BucketBytes(799))),
              ElementsAre(ElementsAre(4), ElementsAre(3), ElementsAre(2),
                          ElementsAre(1), ElementsAre(0)));
}

TEST(PlanTest, AParameterLargerThanABucketIsAloneInOne) {
  EXPECT_THAT(ParametersOfBuckets(MakePlan(
                  {AdamW("a", {10}), AdamW("b", {1000}), AdamW("c", {10})},
                  "dp=2", BucketBytes(100))),
              ElementsAre(ElementsAre(2), ElementsAre(1), ElementsAre(0)));
}

TEST(PlanTest, ClassesHaveBucketsOfTheirOwnInOneLaunchOrder) {
  std::vector<ParameterSpec> specs = {AdamW("a", {10}), AdamW("b", {10}),
                                      AdamW("c", {10}), AdamW("d", {10})};
  specs[1].gradient_dtype = DataType::kBF16;
  specs[3].gradient_dtype = DataType::kBF16;
  const Plan plan = MakePlan(specs, "dp=2");
  ASSERT_EQ(plan.classes.size(), 2u);
  // {d, b} is complete with b, {c, a} only with a.
  EXPECT_THAT(ParametersOfBuckets(plan),
              ElementsAre(ElementsAre(3, 1), ElementsAre(2, 0)));
  EXPECT_EQ(plan.classes[1].gradient_dtype, DataType::kBF16);
  EXPECT_EQ(plan.buckets[0].bucket_class, 1);
}

TEST(PlanTest, PartsRunForwardAndHoldAtMostWhatIsAsked) {
  std::vector<ParameterSpec> specs;
  for (int i = 0; i < 5; ++i) {
    specs.push_back(AdamW(absl::StrCat("v", i), {100}));
  }
  OptimizerOptions options = BucketBytes(1);
  options.plan.buckets_per_part = 2;
  const Plan plan = MakePlan(specs, "dp=2", options);
  std::vector<int32_t> update_order;
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    EXPECT_LE(plan.parts[i].buckets.size(), 2u);
    for (const int32_t bucket : plan.parts[i].buckets) {
      update_order.push_back(bucket);
      EXPECT_EQ(plan.buckets[static_cast<size_t>(bucket)].part,
                static_cast<int32_t>(i));
    }
  }
  EXPECT_EQ(plan.parts.size(), 3u);
  EXPECT_THAT(update_order, ElementsAre(4, 3, 2, 1, 0));
}

TEST(PlanTest, PartsThatThePlanChoosesAreAtMostEight) {
  std::vector<ParameterSpec> specs;
  for (int i = 0; i < 20; ++i) {
    specs.push_back(AdamW(absl::StrCat("v", i), {100}));
  }
  const Plan many = MakePlan(specs, "dp=2", BucketBytes(1));
  EXPECT_EQ(many.parts.size(), 8u);
  for (const Part& part : many.parts) {
    EXPECT_GE(part.buckets.size(), 2u);
    EXPECT_LE(part.buckets.size(), 3u);
  }
  EXPECT_EQ(MakePlan(specs, "dp=2").parts.size(), 1u);
}

TEST(PlanTest, AUnitIsAMatrixAMatrixOfABankOrABlockOfRows) {
  ParameterSpec bank = Muon("bank", {3, 8, 4});
  bank.blocks = {.dimension = 0, .sizes = {2, 6}};
  const Plan plan = MakePlan({bank, Muon("w", {5, 7})}, "dp=2");
  const std::vector<Piece> pieces = PiecesOf(plan, 0);
  ASSERT_EQ(pieces.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    const bool first_block = i % 2 == 0;
    EXPECT_EQ(pieces[i].rows, first_block ? 2 : 6);
    EXPECT_EQ(pieces[i].cols, 4);
    EXPECT_EQ(pieces[i].count, pieces[i].rows * 4);
    EXPECT_EQ(pieces[i].parameter_offset,
              static_cast<int64_t>(i / 2) * 32 + (first_block ? 0 : 8));
  }
  ASSERT_EQ(PiecesOf(plan, 1).size(), 1u);
  EXPECT_EQ(PiecesOf(plan, 1)[0].rows, 5);
  EXPECT_EQ(PiecesOf(plan, 1)[0].cols, 7);
}

TEST(PlanTest, BlocksOfColumnsStayInOneUnitThatCostsTheirSum) {
  ParameterSpec spec = Muon("w", {4, 10});
  spec.blocks = {.dimension = 1, .sizes = {3, 7}};
  OptimizerOptions options;
  options.muon.newton_schulz_steps = 2;
  const Plan plan = MakePlan({spec}, "", options);
  const std::vector<Piece> pieces = PiecesOf(plan, 0);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].count, 40);
  // [4, 3] has m = 3, n = 4; [4, 7] has m = 4, n = 7.
  const int64_t flops = 2 * ((4 * 9 * 4 + 2 * 27) + (4 * 16 * 7 + 2 * 64));
  EXPECT_EQ(plan.rank_load[0].newton_schulz_flops, flops);
  EXPECT_EQ(plan.rank_load[0].scratch_bytes,
            4 * MuonWorkspaceCount(
                    {.rows = 4, .cols = 10, .column_blocks = spec.blocks.sizes},
                    options.muon));
}

TEST(PlanTest, CostsAreThoseOfTheIterationThatWillRun) {
  OptimizerOptions options;
  const auto load = [&options] {
    return MakePlan({Muon("w", {32, 64})}, "", options).rank_load[0];
  };
  const int64_t wide = 2 * 32 * 32 * 64;
  const int64_t square = 2 * 32 * 32 * 32;
  EXPECT_EQ(load().newton_schulz_flops, 5 * (2 * wide + square));
  const int64_t scratch_bytes = load().scratch_bytes;
  options.muon.iteration = NewtonSchulzIteration::kGram;
  EXPECT_EQ(load().newton_schulz_flops, 6 * wide + (5 + 5 + 1) * square);
  EXPECT_EQ(load().scratch_bytes, scratch_bytes + 2 * 32 * 32 * 4);
  options.muon.gram_restart_interval = 5;
  EXPECT_EQ(load().newton_schulz_flops, 2 * wide + 17 * square);
  options.muon.coefficient_set = NewtonSchulzSet::kAol;
  EXPECT_EQ(load().newton_schulz_flops, 3 * wide + 13 * square);
  options.muon.newton_schulz_dtype = DataType::kF64;
  EXPECT_GT(load().scratch_bytes, 1.4 * static_cast<double>(scratch_bytes));
}

TEST(PlanTest, ElementWiseParametersAreCutAtChunksAndDealtEvenly) {
  // 3 chunks and 2: 5 chunks over 3 ranks are 2, 2, 1.
  const Plan plan =
      MakePlan({AdamW("a", {2 * kChunkCount + 5}), AdamW("b", {200})}, "dp=3");
  const std::vector<Piece> b = PiecesOf(plan, 1);
  const std::vector<Piece> a = PiecesOf(plan, 0);
  ASSERT_EQ(b.size(), 1u);  // Registered last, so first in the bucket.
  EXPECT_EQ(b[0].owner, 0);
  EXPECT_EQ(b[0].count, 200);
  ASSERT_EQ(a.size(), 2u);
  EXPECT_EQ(a[0].owner, 1);
  EXPECT_EQ(a[0].count, 256);
  EXPECT_EQ(a[1].owner, 2);
  EXPECT_EQ(a[1].count, 5);
  EXPECT_EQ(a[1].rows, 0);
  // Each starts at a multiple of 16: 200 -> 208, 256, 5 -> 16.
  const std::vector<Segment>& segments = plan.buckets[0].segments;
  EXPECT_EQ(segments[0].count, 208);
  EXPECT_EQ(segments[0].padding, 8);
  EXPECT_EQ(segments[1].offset, 208);
  EXPECT_EQ(segments[2].count, 16);
  EXPECT_EQ(segments[2].padding, 11);
  EXPECT_EQ(plan.buckets[0].count, 480);
  EXPECT_DOUBLE_EQ(plan.padding_fraction, 19.0 / 461.0);
}

TEST(PlanTest, TheOddChunkRotatesOverBuckets) {
  std::vector<ParameterSpec> specs;
  for (int i = 0; i < 6; ++i) {
    specs.push_back(AdamW(absl::StrCat("v", i), {kChunkCount}));
  }
  const Plan plan = MakePlan(specs, "dp=3", BucketBytes(1));
  ASSERT_EQ(plan.buckets.size(), 6u);
  for (const RankLoad& load : plan.rank_load) {
    EXPECT_EQ(load.state_bytes, 2 * kChunkCount * 8);
  }
}

TEST(PlanTest, UnitsComeBeforeRunsInASegment) {
  const Plan plan =
      MakePlan({AdamW("a", {300}), Muon("w", {4, 4}), AdamW("b", {300})}, "");
  std::vector<int32_t> order;
  for (const Piece& piece : plan.buckets[0].pieces) {
    order.push_back(piece.parameter);
  }
  EXPECT_THAT(order, ElementsAre(1, 2, 0));
}

TEST(PlanTest, EveryDivisorIsThatOfAllAxesOverWhichAnyParameterIsAveraged) {
  ParameterSpec expert = Muon("expert", {4, 4});
  expert.roles = {{"pp", AxisRole::kDistinct}, {"ep", AxisRole::kDistinct}};
  ParameterSpec dense = Muon("dense", {4, 4});
  dense.roles = {{"pp", AxisRole::kDistinct}, {"dp", AxisRole::kReplicate}};
  EXPECT_THAT(MakePlan({expert, dense}, "pp=2,dp=3,ep=4").divisors,
              ElementsAre(12, 12));
  EXPECT_THAT(MakePlan({expert}, "pp=2,dp=3,ep=4").divisors, ElementsAre(3));
}

TEST(PlanTest, GroupsVaryOverTheirAxesInHostThenLaneOrder) {
  ParameterSpec spec = Muon("w", {4, 4});
  spec.roles = {{"ep", AxisRole::kReplicate}};
  // Ranks of the group {0, 2, 4, 6} lie on hosts b, a, b, a; b comes first.
  const HostMap hosts =
      HostMap::FromHostIds({"b", "b", "a", "a", "b", "b", "a", "a"});
  const absl::StatusOr<Plan> plan =
      Plan::Create({spec}, *Mesh::Parse("dp=4,ep=2"), hosts, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->classes[0].group_size, 4);
  EXPECT_EQ(plan->classes[0].replica_size, 2);
  EXPECT_THAT(plan->GroupOf(0, Rank(6)),
              ElementsAre(Rank(0), Rank(4), Rank(2), Rank(6)));
  EXPECT_THAT(plan->ReplicasOf(0, Rank(6)), ElementsAre(Rank(6), Rank(7)));
}

TEST(PlanTest, GroupsOnUnlikeHostsStillGetOnePlan) {
  // Over dp, one group has both ranks on one host and the other has not.
  const HostMap hosts = HostMap::FromHostIds({"a", "a", "a", "b"});
  ParameterSpec spec = Muon("w", {4, 4});
  spec.roles = {{"ep", AxisRole::kDistinct}};
  const absl::StatusOr<Plan> plan =
      Plan::Create({spec}, *Mesh::Parse("dp=2,ep=2"), hosts, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->rank_load[0].newton_schulz_flops,
            plan->rank_load[1].newton_schulz_flops);
}

TEST(PlanTest, WireBytesFollowTheFormulas) {
  std::vector<ParameterSpec> specs = {Muon("w", {16, 16}), AdamW("v", {1024})};
  for (ParameterSpec& spec : specs) {
    spec.dtype = DataType::kF32;
    spec.gradient_dtype = DataType::kBF16;
    spec.roles = {{"rp", AxisRole::kReplicate}};
  }
  const Plan plan = MakePlan(specs, "dp=2,rp=2");
  ASSERT_EQ(plan.buckets.size(), 1u);
  // w on group rank 0 with 4 of 8 chunks, the others on 1: P = 1280.
  const int64_t counts[] = {256 + 512, 512};
  for (int32_t rank = 0; rank < 4; ++rank) {
    const int64_t count = counts[rank / 2];
    const RankLoad& load = plan.rank_load[static_cast<size_t>(rank)];
    EXPECT_EQ(load.reduce_bytes, 2 * (1280 - count)) << "rank " << rank;
    EXPECT_EQ(load.gather_bytes, 4 * 1 * count) << "rank " << rank;
    // Half to the other replica, and the other half's sum to it.
    EXPECT_EQ(load.replicate_bytes, 2 * (count / 2 + count / 2));
    EXPECT_EQ(load.state_bytes, (rank < 2 ? 4 * 256 : 0) + 8 * 512);
  }
}

TEST(PlanTest, OwnersDoNotDependOnTheBucketSize) {
  std::vector<ParameterSpec> specs;
  for (int i = 0; i < 30; ++i) {
    specs.push_back(Muon(absl::StrCat("w", i), {8 + i % 5, 16}));
    specs.push_back(AdamW(absl::StrCat("v", i), {200}));
  }
  const Plan large = MakePlan(specs, "dp=7");
  const Plan small = MakePlan(specs, "dp=7", BucketBytes(1));
  for (int32_t p = 0; p < static_cast<int32_t>(specs.size()); p += 2) {
    EXPECT_EQ(PiecesOf(large, p)[0].owner, PiecesOf(small, p)[0].owner);
  }
  for (size_t rank = 0; rank < 7; ++rank) {
    EXPECT_EQ(large.rank_load[rank].newton_schulz_flops,
              small.rank_load[rank].newton_schulz_flops);
  }
}

TEST(PlanTest, TheMemoryCapIsKeptOrTheRankAndMatrixAreNamed) {
  // One costs as much as the others together, but takes less memory.
  std::vector<ParameterSpec> specs = {Muon("square", {64, 64}),
                                      AdamW("v", {500})};
  for (int i = 0; i < 8; ++i) {
    specs.push_back(Muon(absl::StrCat("flat", i), {2, 2048}));
  }
  const Plan free = MakePlan(specs, "dp=2");
  int64_t largest = 0;
  int64_t scratch = 0;
  for (const RankLoad& load : free.rank_load) {
    largest = std::max(largest, load.state_bytes);
    scratch = std::max(scratch, load.scratch_bytes);
  }
  // Nine matrices of 16 KiB: 4 and 5 is the least that two ranks can have.
  OptimizerOptions options;
  options.plan.rank_memory_bytes_max =
      5 * 16384 + 2 * kChunkCount * 8 + scratch;
  EXPECT_GT(largest + scratch, options.plan.rank_memory_bytes_max);
  const Plan capped = MakePlan(specs, "dp=2", options);
  for (const RankLoad& load : capped.rank_load) {
    EXPECT_LE(load.state_bytes + load.scratch_bytes,
              options.plan.rank_memory_bytes_max);
  }
  --options.plan.rank_memory_bytes_max;
  const absl::Status status = TryPlan(specs, "dp=2", options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("option plan.rank_memory_bytes_max: no rank has room "
                        "for item"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"flat"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("group rank "));
}

TEST(PlanTest, ACapBelowTheElementWiseStateIsRefused) {
  OptimizerOptions options;
  options.plan.rank_memory_bytes_max = 100;
  const absl::Status status =
      TryPlan({AdamW("v", {5000}), Muon("w", {4, 4})}, "dp=2", options)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 0 needs 20480 bytes of "
                        "element-wise state"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("parameter \"w\""));
}

TEST(PlanTest, BadInputsAreRefused) {
  const auto refused = [](const absl::StatusOr<Plan>& plan,
                          const std::string& message) {
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr(message));
  };
  refused(TryPlan({}, "dp=2"), "want at least one parameter, got none");
  refused(TryPlan({AdamW("v", {4}), AdamW("v", {4})}, "dp=2"),
          "parameter \"v\": name: want each name once");
  refused(TryPlan({AdamW("v", {4})}, "dp=2", BucketBytes(0)),
          "option plan.bucket_bytes_max");
  refused(Plan::Create({AdamW("v", {4})}, *Mesh::Parse("dp=2"),
                       HostsOfLanes(3, 1), {}),
          "hosts: want one for each of the 2 ranks of the mesh, got 3");
  refused(TryPlan({Muon("w", {int64_t{1} << 20, int64_t{1} << 20})}, "dp=2"),
          "parameter \"w\": shape: want at most 4e+18 Newton-Schulz flops");
}

}  // namespace
}  // namespace muonshard
