// A step that fails, or is skipped, changes nothing on any rank, and says why
// on every rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::FirstValuesOf;
using ::muonshard::testing::GradientOf;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::ParameterBytes;
using ::muonshard::testing::RankRun;
using ::muonshard::testing::RunOnRanks;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RunUnsharded;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::StatusIs;
using ::muonshard::testing::TakeStep;
using ::muonshard::testing::UnshardedRun;
using ::testing::AllOf;
using ::testing::Each;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rank 1 is the one that goes wrong.
bool IsCulprit(const Collective& world) { return world.rank() == Rank{1}; }

absl::Status FinishAndStep(ShardedOptimizer& optimizer,
                           const StepOptions& options = {}) {
  absl::StatusOr<ReducedGradients> reduced = optimizer.Finish();
  if (!reduced.ok()) return reduced.status();
  return optimizer.Step(*std::move(reduced), options);
}

// Checks all parameters of SmallCase in once, but for `leave_out`.
absl::Status CheckInAll(const ShardedCase& sharded, Rank rank,
                        ShardedOptimizer& optimizer, int32_t leave_out = -1) {
  for (int32_t p = 0; p < static_cast<int32_t>(sharded.specs.size()); ++p) {
    if (p == leave_out) continue;
    const ParameterBytes gradient = GradientOf(sharded, rank, p, 99, 0);
    const absl::Status s = optimizer.GradientReady(
        p, gradient.data(), ElementCount(sharded.specs[static_cast<size_t>(p)]),
        DataType::kF32);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

class StepTransactionTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  // What a bad step does on one rank; returns the error the step gave.
  using BadStep = std::function<absl::Status(const ShardedCase&, Collective&,
                                             ShardedOptimizer&)>;

  // A good step, the bad one, another good one: every rank must get `want` for
  // the bad one, and end with the bits of a run without it.
  void ExpectNothingChanged(const ::testing::Matcher<const absl::Status&>& want,
                            const BadStep& bad,
                            const ShardedCase& sharded = SmallCase()) {
    const absl::StatusOr<UnshardedRun> unsharded = RunUnsharded(sharded);
    ASSERT_THAT(unsharded, IsOk());
    const Mesh mesh = *Mesh::Parse(sharded.mesh);
    std::vector<std::vector<ParameterBytes>> parameters(3);
    const RankRun run =
        RunOnRanks({.runtime = GetParam(), .size = 3}, [&](Collective& world) {
          const Rank rank = world.rank();
          auto& own = parameters[static_cast<size_t>(ToInt(rank))];
          absl::StatusOr<std::unique_ptr<ShardedOptimizer>> optimizer =
              ShardedOptimizer::Create(sharded.specs, mesh, world,
                                       sharded.options);
          if (!optimizer.ok()) return optimizer.status();
          for (int32_t p = 0; p < 3; ++p) {
            own.push_back(FirstValuesOf(sharded, mesh, rank, p));
          }
          for (int32_t p = 0; p < 3; ++p) {
            absl::Status s =
                (*optimizer)
                    ->BindParameter(p, own[static_cast<size_t>(p)].data());
            if (!s.ok()) return s;
          }
          absl::Status s = TakeStep(sharded, world, 1, **optimizer);
          if (s.ok()) s = (*optimizer)->Synchronize();
          if (!s.ok()) return s;
          const std::vector<ParameterBytes> before = own;
          EXPECT_THAT(bad(sharded, world, **optimizer), want)
              << "rank " << ToInt(rank);
          EXPECT_TRUE(own == before) << "rank " << ToInt(rank);
          s = TakeStep(sharded, world, 2, **optimizer);
          return s.ok() ? (*optimizer)->Synchronize() : s;
        });
    EXPECT_THAT(run.results, Each(IsOk()));
    EXPECT_TRUE(parameters == unsharded->parameters);
  }
};

TEST_P(StepTransactionTest, OneInfiniteElementOnOneRankSkipsTheStepOnAll) {
  ExpectNothingChanged(IsOk(), [](const ShardedCase& sharded, Collective& world,
                                  ShardedOptimizer& optimizer) {
    absl::Status s = optimizer.BeginStep(1);
    if (s.ok()) s = CheckInAll(sharded, world.rank(), optimizer, 1);
    std::vector<float> gradient(32, 0.5f);
    if (IsCulprit(world)) gradient[17] = kInfinity;
    if (s.ok()) {
      s = optimizer.GradientReady(1, gradient.data(), 32, DataType::kF32);
    }
    if (s.ok()) s = FinishAndStep(optimizer);
    if (!s.ok()) return s;
    const absl::StatusOr<StepOutcome> outcome = optimizer.Outcome();
    if (!outcome.ok()) return outcome.status();
    EXPECT_FALSE(outcome->updated);
    EXPECT_EQ(outcome->non_finite_count, 1);
    return optimizer.Synchronize();
  });
}

TEST_P(StepTransactionTest, ACheckInTooManyOnOneRankFailsTheStepOnAll) {
  ExpectNothingChanged(
      StatusIs(absl::StatusCode::kFailedPrecondition,
               "parameter \"proj\" was checked in more often than there are "
               "micro-batches on rank 1"),
      [](const ShardedCase& sharded, Collective& world,
         ShardedOptimizer& optimizer) {
        absl::Status s = optimizer.BeginStep(1);
        if (s.ok()) s = CheckInAll(sharded, world.rank(), optimizer);
        if (!s.ok()) return s;
        if (IsCulprit(world)) {
          const std::vector<float> gradient(32, 1.0f);
          EXPECT_THAT(
              optimizer.GradientReady(1, gradient.data(), 32, DataType::kF32),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "\"proj\": want 1 check-ins in step 2, one a "
                       "micro-batch, got 2"));
        }
        s = FinishAndStep(optimizer);
        return s.ok() ? optimizer.Synchronize() : s;
      });
}

TEST_P(StepTransactionTest, ACheckInTooFewOnOneRankFailsTheStepOnAll) {
  ExpectNothingChanged(
      StatusIs(absl::StatusCode::kFailedPrecondition,
               "parameter \"bias\" was checked in less often than there are "
               "micro-batches on rank 1"),
      [](const ShardedCase& sharded, Collective& world,
         ShardedOptimizer& optimizer) {
        absl::Status s = optimizer.BeginStep(2);
        if (s.ok()) s = CheckInAll(sharded, world.rank(), optimizer);
        if (s.ok()) {
          s = CheckInAll(sharded, world.rank(), optimizer,
                         IsCulprit(world) ? 2 : -1);
        }
        if (s.ok()) s = FinishAndStep(optimizer);
        return s.ok() ? optimizer.Synchronize() : s;
      });
}

TEST_P(StepTransactionTest, AGradientThatComesOnNoRankFailsTheStepOnAll) {
  ExpectNothingChanged(
      StatusIs(absl::StatusCode::kFailedPrecondition,
               "parameter \"proj\" has a gradient on none of its 3 ranks"),
      [](const ShardedCase& sharded, Collective& world,
         ShardedOptimizer& optimizer) {
        absl::Status s = optimizer.BeginStep(1);
        if (s.ok()) s = CheckInAll(sharded, world.rank(), optimizer, 1);
        if (s.ok()) s = FinishAndStep(optimizer);
        return s.ok() ? optimizer.Synchronize() : s;
      });
}

TEST_P(StepTransactionTest, AGradientOfWrongSizeOrTypeFailsTheStepOnAll) {
  for (const bool wrong_type : {false, true}) {
    ExpectNothingChanged(
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 "parameter \"proj\" was checked in with a gradient of the "
                 "wrong size or dtype on rank 1"),
        [&](const ShardedCase& sharded, Collective& world,
            ShardedOptimizer& optimizer) {
          absl::Status s = optimizer.BeginStep(1);
          if (s.ok()) {
            s = CheckInAll(sharded, world.rank(), optimizer,
                           IsCulprit(world) ? 1 : -1);
          }
          if (!s.ok()) return s;
          if (IsCulprit(world)) {
            const std::vector<float> gradient(32, 1.0f);
            EXPECT_THAT(
                optimizer.GradientReady(
                    1, gradient.data(), wrong_type ? 32 : 31,
                    wrong_type ? DataType::kF16 : DataType::kF32),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         wrong_type ? "want 32 elements of f32, got 32 of f16"
                                    : "want 32 elements of f32, got 31 of "
                                      "f32"));
          }
          s = FinishAndStep(optimizer);
          return s.ok() ? optimizer.Synchronize() : s;
        });
  }
}

struct StepOptionsCase {
  StepOptions culprit;
  const char* text;
};

TEST_P(StepTransactionTest, StepOptionsThatDifferOnOneRankFailTheStepOnAll) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  StepOptions clip;
  clip.clip_norm = 2;
  StepOptions muon;
  muon.muon_learning_rate = 0.125;
  StepOptions adamw;
  adamw.adamw_learning_rate = 0.125;
  StepOptions not_a_number;
  not_a_number.muon_learning_rate = nan;
  StepOptions negative;
  negative.clip_norm = -1;
  StepOptions scale;
  scale.loss_scale = 2;
  StepOptions no_scale;
  no_scale.loss_scale = 0;
  StepOptions schedule;
  schedule.schedule_factors["body"] = 0.5;
  StepOptions too_fast;
  too_fast.adamw_learning_rate = 1e300;
  StepOptions bad_schedule;
  bad_schedule.schedule_factors["body"] = nan;
  StepOptions unknown_schedule;
  unknown_schedule.schedule_factors["boy"] = 1;
  ShardedCase with_schedule = SmallCase();
  with_schedule.specs[1].schedule = "body";
  for (const StepOptionsCase& options : std::vector<StepOptionsCase>{
           {clip, "the clip_norm is not the same on all ranks"},
           {muon, "the muon_learning_rate is not the same on all ranks"},
           {adamw, "the adamw_learning_rate is not the same on all ranks"},
           {not_a_number, "rank 1 gave muon_learning_rate out of range"},
           {negative, "rank 1 gave clip_norm out of range"},
           {scale, "the loss_scale is not the same on all ranks"},
           {no_scale, "rank 1 gave loss_scale out of range"},
           {schedule,
            "the schedule_factors[\"body\"] is not the same on all ranks"},
           {too_fast,
            "rank 1 gave parameter \"bias\" a learning rate that is too large"},
           {bad_schedule,
            "rank 1 gave schedule_factors[\"body\"] out of range"},
           {unknown_schedule,
            "rank 1 gave the factor of a schedule that no parameter has"}}) {
    ExpectNothingChanged(
        AllOf(::testing::Not(IsOk()),
              ::testing::ResultOf(
                  [](const absl::Status& s) { return s.ToString(); },
                  ::testing::HasSubstr(options.text))),
        [&](const ShardedCase& sharded, Collective& world,
            ShardedOptimizer& optimizer) {
          absl::Status s = optimizer.BeginStep(1);
          if (s.ok()) s = CheckInAll(sharded, world.rank(), optimizer);
          if (s.ok()) {
            s = FinishAndStep(
                optimizer, IsCulprit(world) ? options.culprit : StepOptions());
          }
          return s.ok() ? optimizer.Synchronize() : s;
        },
        with_schedule);
  }
}

TEST_P(StepTransactionTest, TheRankThatGaveABadOptionIsToldWhatItGave) {
  StepOptions unknown;
  unknown.schedule_factors["boy"] = 1;
  const auto take = [&](const ShardedCase& sharded, Collective& world,
                        ShardedOptimizer& optimizer) {
    absl::Status s = optimizer.BeginStep(1);
    if (s.ok()) s = CheckInAll(sharded, world.rank(), optimizer);
    if (s.ok()) {
      s = FinishAndStep(optimizer, IsCulprit(world) ? unknown : StepOptions());
    }
    if (s.ok()) s = optimizer.Synchronize();
    const bool told = absl::StrContains(s.message(), "schedule \"boy\"");
    EXPECT_EQ(told, IsCulprit(world)) << s;
    return s;
  };
  ExpectNothingChanged(StatusIs(absl::StatusCode::kInvalidArgument, "rank 1"),
                       take);
}

TEST_P(StepTransactionTest, MicroBatchesThatDifferOnOneRankFailTheStepOnAll) {
  ExpectNothingChanged(
      StatusIs(absl::StatusCode::kFailedPrecondition,
               "the number of micro-batches is not the same on all ranks"),
      [](const ShardedCase& sharded, Collective& world,
         ShardedOptimizer& optimizer) {
        const int32_t micro_batches = IsCulprit(world) ? 2 : 1;
        absl::Status s = optimizer.BeginStep(micro_batches);
        for (int32_t m = 0; m < micro_batches && s.ok(); ++m) {
          s = CheckInAll(sharded, world.rank(), optimizer);
        }
        if (s.ok()) s = FinishAndStep(optimizer);
        return s.ok() ? optimizer.Synchronize() : s;
      });
}

TEST_P(StepTransactionTest, AnErrorThatNobodyAskedForStopsTheNextStepOnce) {
  ExpectNothingChanged(
      StatusIs(absl::StatusCode::kFailedPrecondition, "\"qkv\""),
      [](const ShardedCase& sharded, Collective& world,
         ShardedOptimizer& optimizer) {
        absl::Status s = optimizer.BeginStep(1);
        if (s.ok()) s = CheckInAll(sharded, world.rank(), optimizer, 0);
        if (s.ok()) s = FinishAndStep(optimizer);
        return s.ok() ? optimizer.BeginStep(1) : s;
      });
}

TEST_P(StepTransactionTest, WithSynchronousErrorsTheStepItselfReturnsThem) {
  ShardedCase sharded = SmallCase();
  sharded.options.synchronous_errors = true;
  ExpectNothingChanged(
      StatusIs(absl::StatusCode::kFailedPrecondition, "\"qkv\""),
      [](const ShardedCase& small, Collective& world,
         ShardedOptimizer& optimizer) {
        absl::Status s = optimizer.BeginStep(1);
        if (s.ok()) s = CheckInAll(small, world.rank(), optimizer, 0);
        return s.ok() ? FinishAndStep(optimizer) : s;
      },
      sharded);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, StepTransactionTest,
                         ::testing::ValuesIn(testing::BothRuntimes(3)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
