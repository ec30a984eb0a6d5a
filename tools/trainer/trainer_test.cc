#include "tools/trainer/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tools/trainer/tiny_run.h"

namespace muonshard {
namespace {

using ::testing::AllOf;
using testing::ExpectPlannedBytes;
using testing::ExpectVerified;
using ::testing::HasSubstr;
using testing::Quiet;
using testing::TinyText;

TrainOptions TinyOptions(int32_t ranks) {
  TrainOptions options;
  options.ranks = ranks;
  options.mesh = absl::StrCat("sharding=", ranks);
  options.data_path = TinyText();
  options.shape = {.width = 16, .layers = 2, .heads = 2, .context = 8};
  options.sequences = 2;
  options.steps = 4;
  options.interval = 2;
  options.verify = true;
  return options;
}

std::span<float> Floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

using VerifyCase = std::tuple<int32_t, bool, double, double>;

class VerifiedTrainingTest : public ::testing::TestWithParam<VerifyCase> {};

TEST_P(VerifiedTrainingTest, EqualsTheUnshardedOptimizerBitForBit) {
  const auto [ranks, overlap, clip_norm, bucket_mib] = GetParam();
  TrainOptions options = TinyOptions(ranks);
  options.overlap = overlap;
  options.clip_norm = clip_norm;
  options.bucket_mib = bucket_mib;
  const absl::StatusOr<TrainResult> result = Quiet(options);
  ExpectVerified(result);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->skipped_steps, 0);
  ExpectPlannedBytes(*result, options.steps);
}

// A bucket of one parameter each, of a few, of all; a clip that acts (a first
// gradient has a norm near 1) and none.
INSTANTIATE_TEST_SUITE_P(
    Tiny, VerifiedTrainingTest,
    ::testing::Combine(::testing::Values(1, 2, 3, 4, 8), ::testing::Bool(),
                       ::testing::Values(0.0, 0.01),
                       ::testing::Values(0.0, 0.01, 16.0)));

TEST(TrainerTest, MicroBatchesAreVerifiedToo) {
  TrainOptions options = TinyOptions(3);
  options.micro_batches = 3;
  const auto result = Quiet(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result->verify_max_abs_difference, 0);
}

TEST(TrainerTest, AdamWAloneIsVerifiedToo) {
  TrainOptions options = TinyOptions(2);
  options.rule = Rule::kAdamW;
  const auto result = Quiet(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result->verify_max_abs_difference, 0);
}

TEST(TrainerTest, OneWrongAddendOfOneRankShows) {
  TrainOptions options = TinyOptions(4);
  options.fault_for_test = [](int32_t rank, int64_t step, int32_t parameter,
                              std::span<std::byte> gradient) {
    if (rank == 2 && step == 2 && parameter == 4) Floats(gradient)[7] += 1e-3f;
    return absl::OkStatus();
  };
  const auto result = Quiet(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(*result->verify_max_abs_difference, 0);
  EXPECT_GT(result->verify_different_count, 0);
}

TEST(TrainerTest, AMeshOfSeveralAxesGivesTheSameLossAsOneAxis) {
  TrainOptions options = TinyOptions(4);
  const auto one = Quiet(options);
  options.mesh = "a=2,b=2";
  const auto two = Quiet(options);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(one->held_out_loss_last, two->held_out_loss_last);
  EXPECT_EQ(*two->verify_max_abs_difference, 0);
}

TEST(TrainerTest, TheLossFalls) {
  TrainOptions options = TinyOptions(2);
  options.verify = false;
  options.steps = 40;
  options.muon_learning_rate = 0.02;
  options.adamw_learning_rate = 0.02;
  const auto result = Quiet(options);
  ASSERT_TRUE(result.ok()) << result.status();
  // A model that knows only how often each of the 16 bytes comes has log 16.
  EXPECT_LT(result->held_out_loss_last, 2.7);
  EXPECT_GT(result->held_out_loss_first, 5);
  EXPECT_FALSE(result->verify_max_abs_difference.has_value());
}

TEST(TrainerTest, EveryIntervalHasALineAndTheRestToo) {
  TrainOptions options = TinyOptions(2);
  options.steps = 5;
  std::string shown;
  ASSERT_TRUE(
      Train(options, [&](const std::string& text) { shown += text; }).ok());
  EXPECT_THAT(shown, AllOf(HasSubstr("\n       2 "), HasSubstr("\n       4 "),
                           HasSubstr("\n       5 "), HasSubstr("tokens/s")));
}

TEST(TrainerTest, GradientsThatAreNotFiniteSkipTheStepOnEveryRank) {
  TrainOptions options = TinyOptions(2);
  options.verify = false;
  options.fault_for_test = [](int32_t rank, int64_t step, int32_t parameter,
                              std::span<std::byte> gradient) {
    if (rank == 1 && step == 3 && parameter == 0) {
      Floats(gradient)[0] = std::numeric_limits<float>::infinity();
    }
    return absl::OkStatus();
  };
  const auto result = Quiet(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->skipped_steps, 1);
}

TEST(TrainerTest, AnUnwritablePathIsSaidBeforeTheDataIsRead) {
  for (std::string TrainOptions::*path :
       {&TrainOptions::report_path, &TrainOptions::trace_path,
        &TrainOptions::plot_path}) {
    TrainOptions options = TinyOptions(1);
    options.data_path = "/no/such/data";
    options.*path = "/no/such/folder/file";
    EXPECT_THAT(std::string(Quiet(options).status().message()),
                HasSubstr("/no/such/folder/file"));
  }
}

TEST(TrainerTest, AMissingDataFileIsSaid) {
  TrainOptions options = TinyOptions(1);
  options.data_path = "/no/such/data";
  EXPECT_EQ(Quiet(options).status().code(), absl::StatusCode::kNotFound);
}

TEST(TrainerTest, AnUnknownPluginIsSaidWithWhatWasTried) {
  TrainOptions options = TinyOptions(1);
  options.plugin = "nosuchplugin";
  EXPECT_THAT(std::string(Quiet(options).status().message()),
              HasSubstr("libmuonshard_nosuchplugin.so"));
}

TEST(TrainerTest, AMeshOfAnotherSizeOrAWrongShapeIsRefused) {
  TrainOptions options = TinyOptions(2);
  options.mesh = "sharding=3";
  EXPECT_EQ(Quiet(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.mesh = "sharding";
  EXPECT_EQ(Quiet(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.mesh = "sharding=2";
  options.shape.heads = 3;
  EXPECT_EQ(Quiet(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.shape.heads = 2;
  options.muon_learning_rate = -1;
  EXPECT_EQ(Quiet(options).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muonshard
