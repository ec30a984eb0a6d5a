// Parameters that live on some ranks only: those of one pipeline stage, and
// tied weights on the first and the last.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "optimizer/compute/convert.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/optimizer_rig.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::CheckIn;
using ::muonshard::testing::CheckInAll;
using ::muonshard::testing::FinishAndStep;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::OptimizerRig;
using ::muonshard::testing::ParameterBytes;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RunWithRigs;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::StatusIs;
using ::testing::Each;

// Over "pp=3,data=2": ranks 0 and 1 are stage 0, 4 and 5 the last.
enum : int32_t { kTied, kFirst, kEverywhere };

ParameterSpec SpecOf(const std::string& name) {
  ParameterSpec spec;
  spec.name = name;
  spec.rule = Rule::kMuon;
  spec.shape = {8, 4};
  return spec;
}

ShardedCase PipelineCase() {
  ShardedCase sharded;
  sharded.mesh = "pp=3,data=2";
  sharded.seed = 3;
  ParameterSpec tied = SpecOf("tied");
  tied.roles["pp"] = AxisRole::kPartial;
  tied.coordinates["pp"] = {0, 2};
  ParameterSpec first = SpecOf("first");
  first.roles["pp"] = AxisRole::kDistinct;
  first.coordinates["pp"] = {0};
  ParameterSpec everywhere = SpecOf("everywhere");
  everywhere.roles["pp"] = AxisRole::kDistinct;
  sharded.specs = {tied, first, everywhere};
  sharded.options.equality_check_interval = 1;
  return sharded;
}

bool IsFirstStage(Rank rank) { return ToInt(rank) < 2; }
bool IsLastStage(Rank rank) { return ToInt(rank) >= 4; }

class PlacedParametersTest : public ::testing::TestWithParam<RuntimeCase> {};

TEST_P(PlacedParametersTest,
       WhereOneDoesNotLiveNothingIsAskedForAndNothingTaken) {
  const ShardedCase sharded = PipelineCase();
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam()},
      [&](Collective& world, OptimizerRig& rig) {
        ShardedOptimizer& optimizer = *rig.optimizer;
        if (!IsFirstStage(world.rank())) {
          std::vector<float> memory(32);
          EXPECT_THAT(optimizer.BindParameter(kFirst, memory.data()),
                      StatusIs(absl::StatusCode::kInvalidArgument,
                               "parameter \"first\" does not live on rank "));
        }
        // The rig has bound what lives here, and BeginStep wants no more.
        for (int64_t step = 1; step <= 2; ++step) {
          absl::Status s =
              testing::TakeRigStep(sharded, world.rank(), step, optimizer);
          if (!s.ok()) return s;
          EXPECT_THAT(optimizer.WaitForParameters(kTied), IsOk());
          EXPECT_THAT(optimizer.WaitForParameters("first"), IsOk());
          EXPECT_THAT(optimizer.WaitForParameters(), IsOk());
          s = optimizer.Synchronize();
          if (!s.ok()) return s;
        }
        const auto statistics = optimizer.Statistics();
        if (!statistics.ok()) return statistics.status();
        // 32 elements of each that lives here.
        const int64_t count = IsFirstStage(world.rank())  ? 3
                              : IsLastStage(world.rank()) ? 2
                                                          : 1;
        EXPECT_EQ(statistics->gradient_bytes_held, count * 32 * 4);
        return absl::OkStatus();
      });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(PlacedParametersTest,
       AGradientOfOneThatDoesNotLiveHereFailsTheStepOnAll) {
  ShardedCase sharded = PipelineCase();
  sharded.specs[kFirst].gradient_mode = GradientMode::kView;
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam()},
      [&](Collective& world, OptimizerRig& rig) {
        ShardedOptimizer& optimizer = *rig.optimizer;
        const std::vector<ParameterBytes> before = rig.parameters;
        absl::Status s = optimizer.BeginStep(1);
        if (!s.ok()) return s;
        EXPECT_EQ(optimizer.GradientView(kFirst) != nullptr,
                  IsFirstStage(world.rank()));
        s = CheckInAll(sharded, world.rank(), 1, optimizer);
        if (!s.ok()) return s;
        if (world.rank() == Rank{3}) {
          EXPECT_THAT(CheckIn(sharded, world.rank(), kFirst, 1, optimizer),
                      StatusIs(absl::StatusCode::kFailedPrecondition,
                               "gradient of parameter \"first\": want it where "
                               "the parameter lives"));
        }
        s = FinishAndStep(optimizer);
        if (!s.ok()) return s;
        EXPECT_THAT(optimizer.Synchronize(),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             "parameter \"first\" was checked in where it does "
                             "not live, on rank 3"));
        EXPECT_TRUE(rig.parameters == before);
        return absl::OkStatus();
      });
  EXPECT_THAT(results, Each(IsOk()));
}

// A step in which `lacks` says which rank has no gradient for `p`.
absl::Status StepLacking(const ShardedCase& sharded, Collective& world,
                         int32_t p, bool lacks, OptimizerRig& rig) {
  absl::Status s = rig.optimizer->BeginStep(1);
  if (s.ok()) {
    s = CheckInAll(sharded, world.rank(), 1, *rig.optimizer, lacks ? p : -1);
  }
  if (s.ok()) s = FinishAndStep(*rig.optimizer);
  return s.ok() ? rig.optimizer->Synchronize() : s;
}

TEST_P(PlacedParametersTest, AbsenceIsCountedWhereAParameterLives) {
  const ShardedCase sharded = PipelineCase();
  const auto results = RunWithRigs(
      sharded, {.runtime = GetParam()},
      [&](Collective& world, OptimizerRig& rig) {
        const Rank rank = world.rank();
        // One of the parts of a tied weight may be absent.
        absl::Status s =
            StepLacking(sharded, world, kTied, IsLastStage(rank), rig);
        if (!s.ok()) return s;
        EXPECT_THAT(StepLacking(sharded, world, kTied, true, rig),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             "\"tied\" has a gradient on none of its 4 ranks"));
        EXPECT_THAT(StepLacking(sharded, world, kFirst, true, rig),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             "\"first\" has a gradient on none of its 2 ranks "
                             "at pp=0"));
        EXPECT_THAT(
            StepLacking(sharded, world, kEverywhere, IsLastStage(rank), rig),
            StatusIs(absl::StatusCode::kFailedPrecondition,
                     "\"everywhere\" has a gradient on none of its 2 ranks at "
                     "pp=2"));
        return absl::OkStatus();
      });
  EXPECT_THAT(results, Each(IsOk()));
}

// Multiples of 2^-6 of which every sum is exact.
std::vector<float> ExactGradient(int32_t stage, int32_t data) {
  std::vector<float> gradient(32);
  for (int32_t i = 0; i < 32; ++i) {
    gradient[static_cast<size_t>(i)] =
        static_cast<float>((11 * i + 5 * stage + 3 * data) % 64 - 32) / 64;
  }
  return gradient;
}

// The parts of a tied weight are summed and not averaged: the same bits as on a
// mesh without stages on which each rank has the sum of its parts.
TEST_P(PlacedParametersTest, TiedWeightsStayEqualAndTakeTheSumOfTheirParts) {
  for (const DataType type : {DataType::kF32, DataType::kF16}) {
    ShardedCase sharded = PipelineCase();
    sharded.specs[kTied].gradient_dtype = type;
    // So that the norm is that of the tied weight alone. An update would not
    // show its scale.
    sharded.specs[kFirst].absent_gradient = AbsentGradient::kZeros;
    sharded.specs[kEverywhere].absent_gradient = AbsentGradient::kZeros;
    ShardedCase plain = sharded;
    plain.mesh = "data=2";
    plain.specs = {plain.specs[kTied]};
    plain.specs[0].roles.clear();
    plain.specs[0].coordinates.clear();
    const auto check_in = [&](const std::vector<float>& gradient,
                              ShardedOptimizer& optimizer) {
      if (type == DataType::kF32) {
        return optimizer.GradientReady(kTied, gradient.data(), 32, type);
      }
      std::vector<std::byte> bytes(64);
      FromFloat(type, gradient, bytes.data());
      return optimizer.GradientReady(kTied, bytes.data(), 32, type);
    };
    ParameterBytes want;
    double want_norm = 0;
    ParameterBytes got[6];
    auto results =
        RunWithRigs(plain, {.runtime = GetParam()},
                    [&](Collective& world, OptimizerRig& rig) {
                      const int32_t data = ToInt(world.rank());
                      std::vector<float> sum = ExactGradient(0, data);
                      const std::vector<float> more = ExactGradient(2, data);
                      for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
                      absl::Status s = rig.optimizer->BeginStep(1);
                      if (s.ok()) s = check_in(sum, *rig.optimizer);
                      if (s.ok()) s = FinishAndStep(*rig.optimizer);
                      if (s.ok()) s = rig.optimizer->Synchronize();
                      if (!s.ok() || data != 0) return s;
                      want = rig.parameters[0];
                      want_norm = rig.optimizer->Outcome()->gradient_norm;
                      return s;
                    });
    ASSERT_THAT(results, Each(IsOk()));
    results = RunWithRigs(
        sharded, {.runtime = GetParam()},
        [&](Collective& world, OptimizerRig& rig) {
          const Rank rank = world.rank();
          absl::Status s = rig.optimizer->BeginStep(1);
          if (s.ok() && (IsFirstStage(rank) || IsLastStage(rank))) {
            s = check_in(ExactGradient(ToInt(rank) / 2, ToInt(rank) % 2),
                         *rig.optimizer);
          }
          if (s.ok()) s = FinishAndStep(*rig.optimizer);
          if (s.ok()) s = rig.optimizer->Synchronize();
          if (!s.ok()) return s;
          EXPECT_EQ(rig.optimizer->Outcome()->gradient_norm, want_norm);
          got[ToInt(rank)] = rig.parameters[kTied];
          return s;
        });
    ASSERT_THAT(results, Each(IsOk()));
    for (const int32_t rank : {0, 1, 4, 5}) {
      EXPECT_TRUE(got[rank] == want) << "rank " << rank;
    }
    for (const int32_t rank : {2, 3}) EXPECT_TRUE(got[rank].empty());
  }
}

// In f16, whose largest number is 65504, the sum of the two ranks of a stage
// would overflow; only the result may.
TEST_P(PlacedParametersTest, NoLevelOverflowsWhereTheSumOfThePartsDoesNot) {
  ShardedCase sharded = PipelineCase();
  sharded.specs[kTied].gradient_dtype = DataType::kF16;
  sharded.specs[kFirst].absent_gradient = AbsentGradient::kZeros;
  sharded.specs[kEverywhere].absent_gradient = AbsentGradient::kZeros;
  for (const float last : {-40000.0f, 30000.0f}) {
    const auto results = RunWithRigs(
        sharded, {.runtime = GetParam()},
        [&](Collective& world, OptimizerRig& rig) {
          const Rank rank = world.rank();
          absl::Status s = rig.optimizer->BeginStep(1);
          if (s.ok() && (IsFirstStage(rank) || IsLastStage(rank))) {
            const std::vector<float> values(32,
                                            IsLastStage(rank) ? last : 60000);
            std::vector<std::byte> bytes(64);
            FromFloat(DataType::kF16, values, bytes.data());
            s = rig.optimizer->GradientReady(kTied, bytes.data(), 32,
                                             DataType::kF16);
          }
          if (s.ok()) s = FinishAndStep(*rig.optimizer);
          if (!s.ok()) return s;
          const absl::StatusOr<StepOutcome> outcome = rig.optimizer->Outcome();
          if (!outcome.ok()) return outcome.status();
          EXPECT_EQ(outcome->updated, last < 0);
          if (last < 0) {
            EXPECT_EQ(outcome->gradient_norm, std::sqrt(32 * 20000.0 * 20000));
          } else {
            EXPECT_EQ(outcome->non_finite_count, 32);
          }
          return rig.optimizer->Synchronize();
        });
    EXPECT_THAT(results, Each(IsOk()));
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, PlacedParametersTest,
                         ::testing::ValuesIn(testing::BothRuntimes(4)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
