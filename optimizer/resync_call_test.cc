// Who calls Resync, on which group and when: calls that do not fit are refused
// on all ranks and change nothing, and a step may be left at any point.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/optimizer_rig.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::CheckIn;
using ::muonshard::testing::GuardDeadline;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::MakeRig;
using ::muonshard::testing::MeetAll;
using ::muonshard::testing::OptimizerRig;
using ::muonshard::testing::ParameterBytes;
using ::muonshard::testing::RankContext;
using ::muonshard::testing::RankRun;
using ::muonshard::testing::RunOnRanks;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RunUnsharded;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::StatusIs;
using ::muonshard::testing::TakeStep;
using ::testing::Each;

using Groups = std::vector<std::unique_ptr<Collective>>;

// One rank in a run of three steps.
class Caller {
 public:
  Caller(const ShardedCase& sharded, RankContext& context)
      : sharded_(sharded), context_(context) {}

  Rank rank() const { return context_.rank; }
  ShardedOptimizer& optimizer() { return *rig_.optimizer; }
  Collective& world() {
    return groups_.empty() ? *context_.world : *groups_.back();
  }

  absl::Status Step(int64_t step) {
    absl::Status s = TakeStep(sharded_, world(), step, optimizer());
    if (s.ok()) s = optimizer().Synchronize();
    if (s.ok()) taken_ = step;
    return s;
  }

  absl::Status Begin() {
    absl::StatusOr<OptimizerRig> rig = MakeRig(sharded_, *context_.world);
    if (!rig.ok()) return rig.status();
    rig_ = *std::move(rig);
    return absl::OkStatus();
  }

  // Makes a group and enters it as `rank` of so many.
  absl::Status Enter(const std::string& name, Rank rank, int32_t size) {
    auto group =
        context_.plugin.NewGroup({.rank = rank,
                                  .size = size,
                                  .name = name,
                                  .deadline = GuardDeadline(context_.runtime),
                                  .store = &context_.store});
    if (group.ok()) groups_.push_back(*std::move(group));
    return group.status();
  }
  absl::Status Enter(const std::string& name) { return Enter(name, rank(), 3); }

  // Goes on in the group that was entered last, behind its last step. What it
  // went on from stays.
  absl::Status Resync() {
    absl::StatusOr<ShardedOptimizer::Resynced> resynced =
        ShardedOptimizer::Resync(optimizer(), world());
    if (!resynced.ok()) return resynced.status();
    EXPECT_EQ(resynced->last.step, taken_);
    handed_over_.push_back(
        std::exchange(rig_.optimizer, std::move(resynced->optimizer)));
    return absl::OkStatus();
  }

  ShardedOptimizer& handed_over() { return *handed_over_.back(); }

  // Resyncs in a new group, and takes the other steps.
  absl::StatusOr<std::vector<ParameterBytes>> End() {
    absl::Status s = Enter("last");
    if (s.ok()) s = Resync();
    while (s.ok() && taken_ < 3) s = Step(taken_ + 1);
    if (s.ok()) s = MeetAll(world());
    if (!s.ok()) return s;
    return rig_.parameters;
  }

 private:
  const ShardedCase& sharded_;
  RankContext& context_;
  Groups groups_;
  std::vector<std::unique_ptr<ShardedOptimizer>> handed_over_;
  OptimizerRig rig_;
  int64_t taken_ = 0;
};

class ResyncCallTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  // Runs `calls` on each rank, behind step 1 if it takes one; then all resync,
  // and end as if nothing had been.
  void Run(const ShardedCase& sharded,
           const std::function<absl::Status(Caller&)>& calls,
           bool takes_a_step = true) {
    const auto want = RunUnsharded(sharded);
    ASSERT_THAT(want, IsOk());
    std::vector<std::vector<ParameterBytes>> parameters(3);
    const RankRun run =
        RunOnRanks({.runtime = GetParam(), .size = 3},
                   [&](RankContext& context) -> absl::Status {
                     Caller caller(sharded, context);
                     absl::Status s = caller.Begin();
                     if (s.ok() && takes_a_step) s = caller.Step(1);
                     if (s.ok()) s = calls(caller);
                     if (!s.ok()) return s;
                     auto ended = caller.End();
                     if (!ended.ok()) return ended.status();
                     parameters[static_cast<size_t>(ToInt(context.rank))] =
                         *std::move(ended);
                     return absl::OkStatus();
                   });
    EXPECT_THAT(run.results, Each(IsOk()));
    EXPECT_TRUE(parameters == want->parameters);
  }

  static ShardedCase ThreeSteps() {
    ShardedCase sharded = SmallCase();
    sharded.steps = 3;
    sharded.options.timeout = absl::Seconds(3);
    return sharded;
  }
};

TEST_P(ResyncCallTest, AGroupOfAnotherSizeIsRefused) {
  Run(ThreeSteps(), [](Caller& caller) -> absl::Status {
    const bool alone = caller.rank() == Rank{2};
    absl::Status s = alone ? caller.Enter("one", Rank{0}, 1)
                           : caller.Enter("two", caller.rank(), 2);
    if (!s.ok()) return s;
    EXPECT_THAT(
        caller.Resync(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 alone ? "rank 0: resync: want rank 2 of 3 as in the failed "
                         "group, got rank 0 of 1"
                       : "rank 0: resync: want rank 0 of 3 as in the failed "
                         "group, got rank 0 of 2"));
    return absl::OkStatus();
  });
}

TEST_P(ResyncCallTest, RanksInAnotherOrderAreRefused) {
  Run(ThreeSteps(), [](Caller& caller) -> absl::Status {
    const int32_t rank = ToInt(caller.rank());
    absl::Status s = caller.Enter("turned", Rank{(3 - rank) % 3}, 3);
    if (!s.ok()) return s;
    EXPECT_THAT(caller.Resync(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         "rank 1: resync: want rank 2 of 3 as in the failed "
                         "group, got rank 1 of 3"));
    return absl::OkStatus();
  });
}

TEST_P(ResyncCallTest, AnOptimizerThatWasHandedOverIsRefusedOnAllRanks) {
  Run(ThreeSteps(), [](Caller& caller) -> absl::Status {
    absl::Status s = caller.Enter("first");
    if (s.ok()) s = caller.Resync();
    if (s.ok()) s = caller.Enter("second");
    if (!s.ok()) return s;
    s = caller.rank() == Rank{1}
            ? ShardedOptimizer::Resync(caller.handed_over(), caller.world())
                  .status()
            : caller.Resync();
    EXPECT_THAT(s, StatusIs(absl::StatusCode::kFailedPrecondition,
                            "rank 1: resync: want an optimizer that has its "
                            "memory, got one of which Resync has made "
                            "another"));
    return absl::OkStatus();
  });
}

TEST_P(ResyncCallTest, MayComeWithoutAFailureAndAgain) {
  Run(ThreeSteps(), [](Caller& caller) -> absl::Status {
    absl::Status s = caller.Enter("first");
    if (s.ok()) s = caller.Resync();
    if (s.ok()) s = caller.Enter("second");
    if (s.ok()) s = caller.Resync();
    return s;
  });
}

TEST_P(ResyncCallTest, MayComeBeforeTheFirstStep) {
  const auto calls = [](Caller& caller) -> absl::Status {
    absl::Status s = caller.Enter("first");
    return s.ok() ? caller.Resync() : s;
  };
  Run(ThreeSteps(), calls, /*takes_a_step=*/false);
}

// Of a step that one rank has not begun, one has half checked in and one has
// reduced, nothing is left: what was accumulated in views neither.
TEST_P(ResyncCallTest, MayComeAnywhereInAStep) {
  for (const GradientMode mode : {GradientMode::kView, GradientMode::kCopyLast,
                                  GradientMode::kAccumulate}) {
    for (const bool release : {false, true}) {
      ShardedCase sharded = ThreeSteps();
      sharded.options.release_gradients = release;
      for (ParameterSpec& spec : sharded.specs) spec.gradient_mode = mode;
      SCOPED_TRACE(
          absl::StrCat("mode ", static_cast<int>(mode), ", release ", release));
      Run(sharded, [&](Caller& caller) -> absl::Status {
        const int32_t rank = ToInt(caller.rank());
        if (rank == 0) return absl::OkStatus();
        ShardedOptimizer& optimizer = caller.optimizer();
        absl::Status s = optimizer.BeginStep(1);
        for (int32_t p = 2; p >= (rank == 1 ? 1 : 0) && s.ok(); --p) {
          const auto bytes = static_cast<size_t>(
              ElementCount(sharded.specs[static_cast<size_t>(p)]) *
              static_cast<int64_t>(sizeof(float)));
          void* const view = optimizer.GradientView(p);
          if (view != nullptr) std::memset(view, 0x3f, bytes);
          s = CheckIn(sharded, caller.rank(), p, 2, optimizer);
        }
        if (rank == 1 || !s.ok()) return s;
        return optimizer.Finish().status();
      });
    }
  }
}

// Who waits for a rank that does not call finds out at the deadline.
class AbsentCallerTest : public ResyncCallTest {};

TEST_P(AbsentCallerTest, IsNamedOnAllOthers) {
  Run(ThreeSteps(), [](Caller& caller) -> absl::Status {
    absl::Status s = caller.Enter("first");
    if (!s.ok() || caller.rank() == Rank{1}) return s;
    EXPECT_THAT(caller.Resync(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                          "AllReduce \"agreement\""));
    EXPECT_THAT(caller.world().Health(),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         "2 of 3 ranks arrived; missing rank 1"));
    return absl::OkStatus();
  });
}

INSTANTIATE_TEST_SUITE_P(Runtimes, ResyncCallTest,
                         ::testing::ValuesIn(testing::BothRuntimes(3)),
                         testing::RuntimeCaseName);

INSTANTIATE_TEST_SUITE_P(
    Seeds, AbsentCallerTest,
    ::testing::Values(RuntimeCase{.kind = RuntimeCase::Kind::kSim, .seed = 1},
                      RuntimeCase{.kind = RuntimeCase::Kind::kSim, .seed = 2}),
    testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
