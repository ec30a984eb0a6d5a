// Check-ins from a hook's task against the program's Finish.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

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
using ::testing::Each;

class CheckInRaceTest : public ::testing::TestWithParam<RuntimeCase> {};

TEST_P(CheckInRaceTest, AGradientIsInTheStepAsAWholeOrNotAtAll) {
  ShardedCase sharded = SmallCase();
  sharded.mesh = "data=1";
  sharded.steps = 1;
  const auto want = RunUnsharded(sharded);
  ASSERT_THAT(want, IsOk());
  const Mesh mesh = *Mesh::Parse(sharded.mesh);
  const RankRun run =
      RunOnRanks({.runtime = GetParam(), .size = 1}, [&](Collective& world) {
        std::vector<ParameterBytes> memory;
        auto optimizer = ShardedOptimizer::Create(sharded.specs, mesh, world,
                                                  sharded.options);
        if (!optimizer.ok()) return optimizer.status();
        for (int32_t p = 0; p < 3; ++p) {
          memory.push_back(FirstValuesOf(sharded, mesh, world.rank(), p));
          absl::Status s = (*optimizer)->BindParameter(p, memory.back().data());
          if (!s.ok()) return s;
        }
        const auto check_in = [&](int32_t p) {
          const ParameterBytes ready =
              GradientOf(sharded, world.rank(), p, 1, 0);
          return (*optimizer)
              ->GradientReady(
                  p, ready.data(),
                  ElementCount(sharded.specs[static_cast<size_t>(p)]),
                  DataType::kF32);
        };
        absl::Status s = (*optimizer)->BeginStep(1);
        if (!s.ok()) return s;
        absl::Status late;
        const std::unique_ptr<Task> hook = world.runtime().Start(
            "hook", TaskKind::kProgram, [&] { late = check_in(2); });
        EXPECT_THAT(check_in(0), IsOk());
        EXPECT_THAT(check_in(1), IsOk());
        absl::StatusOr<ReducedGradients> reduced = (*optimizer)->Finish();
        hook->Join();
        if (!reduced.ok()) return reduced.status();
        s = (*optimizer)->Step(*std::move(reduced), {});
        if (!s.ok()) return s;
        const absl::StatusOr<StepOutcome> outcome = (*optimizer)->Outcome();
        EXPECT_EQ(outcome.ok(), late.ok());
        if (outcome.ok()) {
          EXPECT_EQ(outcome->gradient_norm, want->outcomes[0].gradient_norm);
        }
        optimizer->reset();  // Before the memory it is bound to.
        return absl::OkStatus();
      });
  EXPECT_THAT(run.results, Each(IsOk()));
}

// About one seed in a hundred stops the hook between counting and copying.
INSTANTIATE_TEST_SUITE_P(Runtimes, CheckInRaceTest,
                         ::testing::ValuesIn(testing::BothRuntimes(300)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
