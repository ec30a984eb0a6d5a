#include "optimizer/options.h"

#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muonshard {
namespace {

using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Change = std::function<void(OptimizerOptions&)>;

void ExpectRefused(const std::string& message, const Change& change) {
  OptimizerOptions options;
  change(options);
  const absl::Status status = Validate(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

void ExpectTaken(const Change& change) {
  OptimizerOptions options;
  change(options);
  const absl::Status status = Validate(options);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(OptionsTest, DefaultsAreValid) {
  ExpectTaken([](OptimizerOptions&) {});
}

TEST(OptionsTest, PositiveFieldsRefuseAllElse) {
  const std::pair<std::string, std::function<double&(OptimizerOptions&)>>
      fields[] = {{"adamw.learning_rate",
                   [](OptimizerOptions& o) -> double& {
                     return o.adamw.learning_rate;
                   }},
                  {"adamw.epsilon", [](OptimizerOptions& o) -> double& {
                     return o.adamw.epsilon;
                   }}};
  for (const auto& [name, field] : fields) {
    for (const double value : {0.0, -1e-3, kNaN, kInfinity}) {
      ExpectRefused("option " + name + ": want finite and > 0",
                    [&](OptimizerOptions& o) { field(o) = value; });
    }
    ExpectTaken([&](OptimizerOptions& o) { field(o) = 1e-44; });
  }
}

// As 0 it would divide a zero moment by zero.
TEST(OptionsTest, AnEpsilonThatVanishesInF32IsRefused) {
  for (const double value : {1e-50, 1e39}) {
    ExpectRefused("option adamw.epsilon: want finite and > 0 as an f32, got ",
                  [&](OptimizerOptions& o) { o.adamw.epsilon = value; });
  }
}

TEST(OptionsTest, DecayMayBeZeroButNotNegative) {
  const std::pair<std::string, std::function<double&(OptimizerOptions&)>>
      fields[] = {{"adamw.weight_decay", [](OptimizerOptions& o) -> double& {
                     return o.adamw.weight_decay;
                   }}};
  for (const auto& [name, field] : fields) {
    for (const double value : {-1e-3, kNaN, kInfinity}) {
      ExpectRefused("option " + name + ": want finite and >= 0, got ",
                    [&](OptimizerOptions& o) { field(o) = value; });
    }
    ExpectTaken([&](OptimizerOptions& o) { field(o) = 0; });
  }
}

TEST(OptionsTest, AveragingFactorsLieBelowOne) {
  const std::pair<std::string, std::function<double&(OptimizerOptions&)>>
      fields[] = {
          {"adamw.beta1",
           [](OptimizerOptions& o) -> double& { return o.adamw.beta1; }},
          {"adamw.beta2",
           [](OptimizerOptions& o) -> double& { return o.adamw.beta2; }}};
  for (const auto& [name, field] : fields) {
    for (const double value : {1.0, -0.1, kNaN, kInfinity}) {
      ExpectRefused("option " + name + ": want in [0, 1), got ",
                    [&](OptimizerOptions& o) { field(o) = value; });
    }
    ExpectTaken([&](OptimizerOptions& o) { field(o) = 0; });
  }
}

TEST(OptionsTest, MuonsOptionsAreValidatedToo) {
  ExpectRefused("option muon.momentum: want in [0, 1), got 1",
                [](OptimizerOptions& o) { o.muon.momentum = 1; });
}

TEST(OptionsTest, PlanLimitsHaveTheirRanges) {
  ExpectRefused("option plan.bucket_bytes_max: want >= 1, got 0",
                [](OptimizerOptions& o) { o.plan.bucket_bytes_max = 0; });
  ExpectRefused("option plan.buckets_per_part: want >= 0, got -1",
                [](OptimizerOptions& o) { o.plan.buckets_per_part = -1; });
  ExpectRefused("option plan.rank_memory_bytes_max: want >= 0, got -5",
                [](OptimizerOptions& o) { o.plan.rank_memory_bytes_max = -5; });
  ExpectTaken([](OptimizerOptions& o) { o.plan.bucket_bytes_max = 1; });
}

TEST(OptionsTest, AnUnknownHierarchyOrGatherModeIsRefused) {
  ExpectRefused("option plan.hierarchy: want one of Hierarchy, got 77",
                [](OptimizerOptions& o) {
                  o.plan.hierarchy = static_cast<Hierarchy>(77);
                });
  ExpectRefused(
      "option gather: want one of GatherMode, got 77",
      [](OptimizerOptions& o) { o.gather = static_cast<GatherMode>(77); });
  for (const Hierarchy hierarchy :
       {Hierarchy::kOff, Hierarchy::kOn, Hierarchy::kAuto}) {
    ExpectTaken(
        [hierarchy](OptimizerOptions& o) { o.plan.hierarchy = hierarchy; });
  }
  for (const GatherMode gather : {GatherMode::kEager, GatherMode::kLazy}) {
    ExpectTaken([gather](OptimizerOptions& o) { o.gather = gather; });
  }
}

TEST(OptionsTest, TheEqualityCheckIntervalIsNotNegative) {
  ExpectRefused("option equality_check_interval: want >= 0, got -1",
                [](OptimizerOptions& o) { o.equality_check_interval = -1; });
  for (const int64_t interval : {0, 1, 100}) {
    ExpectTaken([interval](OptimizerOptions& o) {
      o.equality_check_interval = interval;
    });
  }
}

TEST(OptionsTest, TheTimeoutIsFiniteAndPositive) {
  for (const absl::Duration timeout :
       {absl::ZeroDuration(), absl::Seconds(-1), absl::InfiniteDuration(),
        -absl::InfiniteDuration()}) {
    ExpectRefused("option timeout: want finite and > 0, got ",
                  [timeout](OptimizerOptions& o) { o.timeout = timeout; });
  }
}

}  // namespace
}  // namespace muonshard
