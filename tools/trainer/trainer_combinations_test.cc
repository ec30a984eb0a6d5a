// Every option of a run together with every other, on models so small that a
// run takes a fraction of a second: all are held against the unsharded
// optimizer, bit for bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectives/data_type.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "tools/trainer/tiny_run.h"

namespace muonshard {
namespace {

using testing::ExpectPlannedBytes;
using testing::ExpectVerified;
using ::testing::HasSubstr;
using testing::Quiet;
using testing::TinyText;

// On two pretended hosts, with a clip that acts.
TrainOptions TinyOptions(int32_t ranks, const std::string& mesh,
                         int64_t experts) {
  TrainOptions options;
  options.ranks = ranks;
  options.mesh = mesh;
  options.lanes_per_node = ranks / 2;
  options.data_path = TinyText();
  options.shape = {
      .width = 16, .layers = 1, .heads = 2, .context = 8, .experts = experts};
  options.sequences = 2;
  options.micro_batches = 2;
  options.clip_norm = 0.01;
  options.bucket_mib = 0.005;
  options.steps = 4;
  options.verify = true;
  // Grows within the run.
  options.scaler_options.growth_interval = 2;
  return options;
}

using Combination =
    std::tuple<bool, DataType, Hierarchy, GatherMode, bool, bool>;

class TrainerCombinationTest : public ::testing::TestWithParam<Combination> {};

TEST_P(TrainerCombinationTest, EqualsTheUnshardedOptimizerBitForBit) {
  const auto [experts, precision, hierarchy, gather, scaler, overlap] =
      GetParam();
  TrainOptions options = experts ? TinyOptions(4, "moe_sharding=2,ep=2", 4)
                                 : TinyOptions(4, "sharding=4", 0);
  options.precision = precision;
  options.hierarchy = hierarchy;
  options.gather = gather;
  options.scaler = scaler;
  options.overlap = overlap;
  const absl::StatusOr<TrainResult> result = Quiet(options);
  ExpectVerified(result);
  ASSERT_TRUE(result.ok());
  // The group of everything but experts: two lanes on each of two hosts.
  ASSERT_FALSE(result->groups.empty());
  EXPECT_EQ(result->groups[0].levels.hierarchical(),
            hierarchy != Hierarchy::kOff);
  EXPECT_EQ(result->loss_scale != 1, scaler);
  // A step that is skipped gathers nothing.
  if (result->skipped_steps == 0) ExpectPlannedBytes(*result, options.steps);
  int64_t positions = 0;
  for (const int64_t count : result->expert_positions) positions += count;
  EXPECT_EQ(positions, experts ? options.steps * TokensPerStep(options) : 0);
}

std::string NameOfCombination(
    const ::testing::TestParamInfo<Combination>& info) {
  const auto [experts, precision, hierarchy, gather, scaler, overlap] =
      info.param;
  return absl::StrCat(experts ? "Experts" : "Dense", "_",
                      PrecisionName(precision),
                      hierarchy == Hierarchy::kOn ? "_hierarchical" : "_flat",
                      gather == GatherMode::kEager ? "_eager" : "_lazy",
                      scaler ? "_scaler" : "", overlap ? "_overlap" : "");
}

INSTANTIATE_TEST_SUITE_P(
    All, TrainerCombinationTest,
    ::testing::Combine(::testing::Bool(),
                       ::testing::Values(DataType::kF32, DataType::kBF16,
                                         DataType::kF16),
                       ::testing::Values(Hierarchy::kOn, Hierarchy::kOff),
                       ::testing::Values(GatherMode::kEager, GatherMode::kLazy),
                       ::testing::Bool(), ::testing::Bool()),
    NameOfCombination);

using MeshCase = std::tuple<std::string, DataType>;

class TrainerMeshTest : public ::testing::TestWithParam<MeshCase> {};

TEST_P(TrainerMeshTest, EqualsTheUnshardedOptimizerBitForBit) {
  const auto& [mesh, precision] = GetParam();
  TrainOptions options = TinyOptions(8, mesh, 4);
  options.precision = precision;
  options.scaler = true;
  ExpectVerified(Quiet(options));
}

// Replicas, experts first, a host that holds what another host needs, and an
// axis of one.
INSTANTIATE_TEST_SUITE_P(
    Eight, TrainerMeshTest,
    ::testing::Combine(::testing::Values("dp=2,sharding=4", "sharding=4,dp=2",
                                         "dp=2,moe_sharding=2,ep=2",
                                         "ep=4,moe_sharding=2", "ep=2,dp=4",
                                         "dp=8", "ep=1,sharding=8"),
                       ::testing::Values(DataType::kF32, DataType::kF16)));

TEST(TrainerScalerTest, OverflowsAreSkippedAndHalveTheScaleUntilItLearns) {
  for (const int64_t experts : {0, 4}) {
    TrainOptions options = TinyOptions(4, "moe_sharding=2,ep=2", experts);
    options.precision = DataType::kF16;
    options.scaler = true;
    options.scaler_options = {.init_scale = 0x1p30};
    options.steps = 24;
    const auto result = Quiet(options);
    ExpectVerified(result);
    ASSERT_TRUE(result.ok());
    EXPECT_GT(result->skipped_steps, 2);
    EXPECT_LT(result->skipped_steps, options.steps);
    EXPECT_EQ(result->loss_scale,
              std::ldexp(1.0, static_cast<int>(30 - result->skipped_steps)));
    EXPECT_LT(result->held_out_loss_last, result->held_out_loss_first);
  }
}

TEST(TrainerScalerTest, AScaleOfAPowerOfTwoChangesNoBitInF32) {
  TrainOptions options = TinyOptions(2, "sharding=2", 0);
  const auto plain = Quiet(options);
  options.scaler = true;
  const auto scaled = Quiet(options);
  ExpectVerified(plain);
  ExpectVerified(scaled);
  ASSERT_TRUE(plain.ok() && scaled.ok());
  EXPECT_EQ(plain->held_out_loss_last, scaled->held_out_loss_last);
}

TEST(TrainerScalerTest, WithoutItF16IsTakenAsItIs) {
  TrainOptions options = TinyOptions(2, "sharding=2", 0);
  options.precision = DataType::kF16;
  const auto result = Quiet(options);
  ExpectVerified(result);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->loss_scale, 1);
}

TEST(TrainerExpertsTest, WhereTheyAreChangesTheLossByRoundingAlone) {
  TrainOptions options = TinyOptions(4, "sharding=4", 4);
  options.clip_norm = 0;
  options.steps = 2;
  const auto at_one_place = Quiet(options);
  options.mesh = "ep=4";
  const auto at_four = Quiet(options);
  options.mesh = "moe_sharding=2,ep=2";
  const auto at_two = Quiet(options);
  for (const auto* result : {&at_one_place, &at_four, &at_two}) {
    ExpectVerified(*result);
    ASSERT_TRUE(result->ok());
    // The same first values and batches, so the same choices.
    EXPECT_EQ((*result)->expert_positions, at_one_place->expert_positions);
    // Losses near 5.5 are sums of 16 terms of 2^-24 in f32, before and after
    // updates that differ by roundings of sums over 64 positions.
    EXPECT_NEAR((*result)->held_out_loss_last, at_one_place->held_out_loss_last,
                1e-4);
  }
}

TEST(TrainerExpertsTest, AdamWTakesBanksToo) {
  TrainOptions options = TinyOptions(4, "moe_sharding=2,ep=2", 4);
  options.rule = Rule::kAdamW;
  options.precision = DataType::kBF16;
  ExpectVerified(Quiet(options));
}

// The others wait for it in exchanges of positions and of gradients, in
// reductions and for parameters.
TEST(TrainerExpertsTest, ARankThatFailsEndsTheRunOnAllAndIsNamed) {
  TrainOptions options = TinyOptions(8, "moe_sharding=2,ep=4", 4);
  options.fault_for_test = [](int32_t rank, int64_t step, int32_t parameter,
                              std::span<std::byte>) {
    return rank == 5 && step == 2 && parameter == 3
               ? absl::DataLossError("a bit fell over")
               : absl::OkStatus();
  };
  const absl::Status status = Quiet(options).status();
  EXPECT_EQ(status, absl::DataLossError("rank 5: a bit fell over"));
}

TEST(TrainerExpertsTest, AnUnevenShareOfHeldOutBatchesEndsOnEveryRank) {
  // 32 batches over 6 ranks: two have one less.
  TrainOptions options = TinyOptions(6, "sharding=2,ep=3", 3);
  ExpectVerified(Quiet(options));
}

std::string Refusal(
    const TrainOptions& options,
    absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const absl::Status status = Quiet(options).status();
  EXPECT_EQ(status.code(), code) << status;
  return std::string(status.message());
}

TEST(TrainerRefusalTest, HierarchyWithoutTwoHostsOrWithUnequalLanesIsRefused) {
  TrainOptions options = TinyOptions(4, "sharding=4", 0);
  options.hierarchy = Hierarchy::kOn;
  options.lanes_per_node = 0;
  EXPECT_THAT(Refusal(options, absl::StatusCode::kFailedPrecondition),
              HasSubstr("have 4 ranks on one host"));
  options.lanes_per_node = 3;
  EXPECT_THAT(Refusal(options, absl::StatusCode::kFailedPrecondition),
              HasSubstr("host \"node0\" has 3 ranks of the group, host "
                        "\"node1\" has 1"));
  options.hierarchy = Hierarchy::kAuto;
  const auto result = Quiet(options);
  ExpectVerified(result);
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->groups[0].levels.hierarchical());
}

TEST(TrainerRefusalTest, HostsArePretendedByLoopbackAlone) {
  TrainOptions options = TinyOptions(4, "sharding=4", 0);
  options.plugin = "collectives/testing/libmuonshard_solo.so";
  EXPECT_THAT(Refusal(options),
              HasSubstr("--lanes-per-node: hosts can be pretended with plugin "
                        "\"loopback\" alone, got \"solo\""));
}

TEST(TrainerRefusalTest, ExpertsThatDoNotDivideAreRefused) {
  EXPECT_THAT(Refusal(TinyOptions(4, "moe_sharding=2,ep=2", 3)),
              HasSubstr("experts: want a multiple of 2"));
}

TEST(TrainerRefusalTest, AScaleThatIsNotPositiveIsRefused) {
  TrainOptions options = TinyOptions(2, "sharding=2", 0);
  options.scaler = true;
  options.scaler_options.init_scale = -1;
  EXPECT_THAT(Refusal(options), HasSubstr("init_scale"));
  options.verify = false;
  EXPECT_THAT(Refusal(options), HasSubstr("init_scale"));
}

}  // namespace
}  // namespace muonshard
