// What is left when a rank goes away in the middle of a step, and when an
// optimizer is destroyed while its operations run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/runtime.h"
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
using ::testing::Each;

// One rank's parameters, and an optimizer that is bound to them.
struct Rig {
  std::vector<ParameterBytes> parameters;
  // Reads the parameters, so it goes first.
  std::unique_ptr<ShardedOptimizer> optimizer;
};

absl::StatusOr<Rig> MakeRig(const ShardedCase& sharded, Collective& world) {
  Rig rig;
  const Mesh mesh = *Mesh::Parse(sharded.mesh);
  auto optimizer =
      ShardedOptimizer::Create(sharded.specs, mesh, world, sharded.options);
  if (!optimizer.ok()) return optimizer.status();
  rig.optimizer = *std::move(optimizer);
  for (int32_t p = 0; p < 3; ++p) {
    rig.parameters.push_back(FirstValuesOf(sharded, mesh, world.rank(), p));
  }
  for (int32_t p = 0; p < 3; ++p) {
    const absl::Status s = rig.optimizer->BindParameter(
        p, rig.parameters[static_cast<size_t>(p)].data());
    if (!s.ok()) return s;
  }
  return rig;
}

absl::Status CheckIn(const ShardedCase& sharded, Rank rank, int32_t p,
                     ShardedOptimizer& optimizer) {
  const ParameterBytes gradient = GradientOf(sharded, rank, p, 1, 0);
  return optimizer.GradientReady(
      p, gradient.data(), ElementCount(sharded.specs[static_cast<size_t>(p)]),
      DataType::kF32);
}

class BrokenGroupTest : public ::testing::TestWithParam<RuntimeCase> {};

TEST_P(BrokenGroupTest, ARankThatLeavesDuringBackwardEndsTheStepOnTheOthers) {
  const ShardedCase sharded = SmallCase();
  const RankRun run =
      RunOnRanks({.runtime = GetParam(), .size = 3}, [&](Collective& world) {
        absl::StatusOr<Rig> rig = MakeRig(sharded, world);
        if (!rig.ok()) return rig.status();
        absl::Status s = rig->optimizer->BeginStep(1);
        if (!s.ok()) return s;
        if (world.rank() == Rank{1}) {
          s = CheckIn(sharded, world.rank(), 2, *rig->optimizer);
          if (!s.ok()) return s;
          rig->optimizer.reset();
          return absl::UnavailableError("lost power");
        }
        const std::vector<ParameterBytes> before = rig->parameters;
        for (int32_t p = 2; p >= 0; --p) {
          s = CheckIn(sharded, world.rank(), p, *rig->optimizer);
          if (!s.ok()) return s;
        }
        auto reduced = rig->optimizer->Finish();
        if (!reduced.ok()) return reduced.status();
        s = rig->optimizer->Step(*std::move(reduced), {});
        if (!s.ok()) return s;
        EXPECT_THAT(rig->optimizer->Synchronize(), ::testing::Not(IsOk()));
        EXPECT_TRUE(rig->parameters == before);
        return absl::OkStatus();
      });
  EXPECT_THAT(run.results[1],
              StatusIs(absl::StatusCode::kUnavailable, "lost power"));
  EXPECT_THAT(run.results[0], IsOk());
  EXPECT_THAT(run.results[2], IsOk());
}

TEST_P(BrokenGroupTest, AFailedControlReadsAsSkipAndNamesTheCause) {
  const ShardedCase sharded = SmallCase();
  const RankRun run =
      RunOnRanks({.runtime = GetParam(), .size = 3}, [&](Collective& world) {
        absl::StatusOr<Rig> rig = MakeRig(sharded, world);
        if (!rig.ok()) return rig.status();
        absl::Status s = TakeStep(sharded, world, 1, *rig->optimizer);
        if (s.ok()) s = rig->optimizer->Synchronize();
        if (!s.ok()) return s;
        const std::vector<ParameterBytes> before = rig->parameters;
        s = rig->optimizer->BeginStep(1);
        for (int32_t p = 2; p >= 0 && s.ok(); --p) {
          s = CheckIn(sharded, world.rank(), p, *rig->optimizer);
        }
        if (!s.ok()) return s;
        auto reduced = rig->optimizer->Finish();
        if (!reduced.ok()) return reduced.status();
        world.Abort(absl::UnavailableError("operator said stop"));
        s = rig->optimizer->Step(*std::move(reduced), {});
        if (!s.ok()) return s;
        EXPECT_THAT(rig->optimizer->Synchronize(),
                    StatusIs(absl::StatusCode::kAborted, "operator said stop"));
        EXPECT_TRUE(rig->parameters == before);
        EXPECT_THAT(rig->optimizer->BeginStep(1),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             "want Resync on a new group"));
        return absl::OkStatus();
      });
  EXPECT_THAT(run.results, Each(IsOk()));
}

TEST_P(BrokenGroupTest, AnOptimizerMayBeDestroyedRightAfterItsStep) {
  for (const char* mesh : {"data=1", "data=3"}) {
    ShardedCase sharded = SmallCase();
    sharded.mesh = mesh;
    const int32_t size = Mesh::Parse(mesh)->size();
    const RankRun run = RunOnRanks(
        {.runtime = GetParam(), .size = size}, [&](Collective& world) {
          absl::StatusOr<Rig> rig = MakeRig(sharded, world);
          if (!rig.ok()) return rig.status();
          return TakeStep(sharded, world, 1, *rig->optimizer);
        });
    EXPECT_THAT(run.results, Each(IsOk()));
  }
}

TEST_P(BrokenGroupTest, SeveralTasksMayWaitForParametersAtOnce) {
  ShardedCase sharded = SmallCase();
  sharded.steps = 4;
  const auto want = RunUnsharded(sharded);
  ASSERT_THAT(want, IsOk());
  std::vector<std::vector<ParameterBytes>> parameters(3);
  const RankRun run =
      RunOnRanks({.runtime = GetParam(), .size = 3}, [&](Collective& world) {
        absl::StatusOr<Rig> rig = MakeRig(sharded, world);
        if (!rig.ok()) return rig.status();
        ShardedOptimizer& optimizer = *rig->optimizer;
        // Tasks that still wait for one step while the program is in the next.
        const std::vector<absl::Status> results =
            RunRanks(world.runtime(), 3, [&](Rank task) {
              if (task != Rank{0}) {
                for (int32_t i = 0; i < 12; ++i) {
                  const absl::Status s = optimizer.WaitForParameters(i % 3);
                  if (!s.ok()) return s;
                  world.runtime().Yield();
                }
                return absl::OkStatus();
              }
              for (int64_t step = 1; step <= sharded.steps; ++step) {
                const absl::Status s =
                    TakeStep(sharded, world, step, optimizer);
                if (!s.ok()) return s;
              }
              return optimizer.Synchronize();
            });
        parameters[static_cast<size_t>(ToInt(world.rank()))] = rig->parameters;
        for (const absl::Status& s : results) {
          if (!s.ok()) return s;
        }
        return absl::OkStatus();
      });
  EXPECT_THAT(run.results, Each(IsOk()));
  EXPECT_TRUE(parameters == want->parameters);
}

// Lets simulated time pass.
void Pass(Runtime& runtime, absl::Duration duration) {
  const EventSource never(runtime);
  EXPECT_THAT(never.event().Wait(runtime.Now() + duration),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

// Reductions do not wait for a rank for ever, not even if it comes before
// anyone waits for them: what is late is late on all ranks.
TEST(LateRankTest, ARankThatChecksInAfterTheDeadlineEndsTheStep) {
  ShardedCase sharded = SmallCase();
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    sharded.options.overlap = seed % 2 == 0;
    const auto program = [&](Collective& world) {
      absl::StatusOr<Rig> rig = MakeRig(sharded, world);
      if (!rig.ok()) return rig.status();
      const std::vector<ParameterBytes> before = rig->parameters;
      const absl::Duration timeout = sharded.options.timeout;
      const bool late = world.rank() == Rank{1};
      absl::Status s = rig->optimizer->BeginStep(1);
      if (late) Pass(world.runtime(), timeout + absl::Seconds(1));
      for (int32_t p = 2; p >= 0 && s.ok(); --p) {
        s = CheckIn(sharded, world.rank(), p, *rig->optimizer);
      }
      if (!s.ok()) return s;
      auto reduced = rig->optimizer->Finish();
      if (!reduced.ok()) return reduced.status();
      if (!late) Pass(world.runtime(), timeout + absl::Seconds(2));
      s = rig->optimizer->Step(*std::move(reduced), {});
      if (!s.ok()) return s;
      EXPECT_THAT(rig->optimizer->Synchronize(),
                  StatusIs(absl::StatusCode::kAborted,
                           "the step was not taken: the reduction of the "
                           "bucket of parameter \"bias\" failed on rank 0"));
      EXPECT_TRUE(rig->parameters == before);
      return absl::OkStatus();
    };
    const RankRun run = RunOnRanks(
        {.runtime = {.kind = RuntimeCase::Kind::kSim, .seed = seed}, .size = 3},
        program);
    EXPECT_THAT(run.results, Each(IsOk()));
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, BrokenGroupTest,
                         ::testing::ValuesIn(testing::BothRuntimes(10)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
