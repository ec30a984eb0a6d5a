// A run in which a group breaks, at any operation, and that goes on with Resync
// on a new group ends with the bits of an undisturbed one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
#include "testing/run_difference.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::CheckSameRun;
using ::muonshard::testing::GradientValues;
using ::muonshard::testing::GuardDeadline;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::MakeRig;
using ::muonshard::testing::MeetAll;
using ::muonshard::testing::OptimizerRig;
using ::muonshard::testing::ParameterBytes;
using ::muonshard::testing::RankContext;
using ::muonshard::testing::RankRun;
using ::muonshard::testing::RunOnRanks;
using ::muonshard::testing::RunSharded;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RunUnsharded;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::ShardedRun;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::StatusIs;
using ::muonshard::testing::TakeRigStep;

// Three steps that recover.
ShardedCase RecoveringCase() {
  ShardedCase sharded = SmallCase();
  sharded.steps = 3;
  sharded.clip_norm = 0.5;
  sharded.recovers = true;
  // Of threads a part is waited for; virtual time costs nothing.
  sharded.options.timeout = absl::Seconds(3);
  return sharded;
}

class RecoveryTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  // Runs with one fault at every operation of a rank: all positions on the
  // simulated runtime, some on threads.
  void ExpectUndisturbed(const ShardedCase& sharded, const std::string& kind,
                         size_t rank) {
    const auto want = RunUnsharded(sharded);
    ASSERT_THAT(want, IsOk());
    const ShardedRun whole = RunSharded(sharded, GetParam());
    ASSERT_THAT(CheckSameRun(sharded, whole, *want), IsOk());
    EXPECT_THAT(whole.recoveries, ::testing::Each(0));
    const auto [begin, end] = whole.operations[rank];
    ASSERT_LT(begin, end);
    const bool threads = GetParam().kind == RuntimeCase::Kind::kThreads;
    int64_t recovered_count = 0;
    for (int64_t at = begin; at < end; at += threads ? 7 : 1) {
      const std::string fault = absl::StrCat(kind, " rank=", rank, " at=", at);
      SCOPED_TRACE(fault);
      const ShardedRun run = RunSharded(
          sharded, GetParam(),
          {.plugin_options = absl::StrCat("{\"faults\": \"", fault, "\"}")});
      ASSERT_THAT(CheckSameRun(sharded, run, *want), IsOk());
      EXPECT_TRUE(run.states == whole.states);
      if (*std::ranges::max_element(run.recoveries) > 0) ++recovered_count;
    }
    EXPECT_GT(recovered_count, 0);
  }
};

TEST_P(RecoveryTest, AnAbortAtAnyOperation) {
  for (const GatherMode gather : {GatherMode::kEager, GatherMode::kLazy}) {
    ShardedCase sharded = RecoveringCase();
    sharded.options.gather = gather;
    for (const size_t rank : {size_t{0}, size_t{2}}) {
      ExpectUndisturbed(sharded, "abort", rank);
    }
  }
}

TEST_P(RecoveryTest, ACallWithoutMemoryAtAnyOperation) {
  ExpectUndisturbed(RecoveringCase(), "memory", 1);
}

// A lost message is noticed by its deadline, so only where the clock is
// virtual.
class SimulatedRecoveryTest : public RecoveryTest {};

TEST_P(SimulatedRecoveryTest, ALostMessageOfAnyOperation) {
  ExpectUndisturbed(RecoveringCase(), "lose", 1);
}

TEST_P(RecoveryTest, ACorruptMessageOfAnyOperation) {
  ExpectUndisturbed(RecoveringCase(), "corrupt", 1);
}

TEST_P(RecoveryTest, ReleasedGradientsAreKeptUntilAllRanksCanDecide) {
  ShardedCase sharded = RecoveringCase();
  sharded.options.release_gradients = true;
  ExpectUndisturbed(sharded, "abort", 0);
}

TEST_P(RecoveryTest, SkippedStepsScalersAndMicroBatches) {
  ShardedCase sharded = RecoveringCase();
  sharded.scaler.emplace();
  sharded.scaler->init_scale = 1024;
  sharded.micro_batches = 2;
  sharded.overflows = {{.rank = Rank(1), .parameter = 1, .step = 2}};
  ExpectUndisturbed(sharded, "abort", 0);
  ExpectUndisturbed(sharded, "abort", 1);
}

TEST_P(RecoveryTest, AGroupOfTwoLevels) {
  ShardedCase sharded = RecoveringCase();
  sharded.mesh = "replicas=2,data=4";
  for (ParameterSpec& spec : sharded.specs) {
    spec.roles["replicas"] = AxisRole::kReplicate;
  }
  sharded.hosts = {"a", "a", "b", "b", "c", "c", "d", "d"};
  sharded.options.plan.hierarchy = Hierarchy::kOn;
  sharded.gradients = GradientValues::kExactSums;
  sharded.steps = 2;
  ExpectUndisturbed(sharded, "abort", 5);
}

TEST_P(RecoveryTest, NarrowParametersAndAbsentGradients) {
  ShardedCase sharded = RecoveringCase();
  for (ParameterSpec& spec : sharded.specs) {
    spec.dtype = DataType::kBF16;
    spec.absent_gradient = AbsentGradient::kSkip;
  }
  sharded.has_gradient = [](Rank, int32_t p, int64_t step) {
    return p != 1 || step != 2;
  };
  ExpectUndisturbed(sharded, "abort", 0);
}

// A world in which one operation of this rank fails behind its end, when the
// other ranks have its result: its label, and a group of this rank alone that
// is broken. Without a group all is as in `inner`.
class LossyWorld : public Collective {
 public:
  LossyWorld(Collective& inner, std::string label, Collective* broken)
      : Collective(inner.runtime(), inner.rank(), inner.size(), inner.name(),
                   inner.capabilities()),
        inner_(inner),
        label_(std::move(label)),
        broken_(broken) {}

  absl::StatusOr<std::unique_ptr<Collective>> Split(
      int32_t color, int32_t key, absl::string_view name,
      absl::Time deadline) override {
    return inner_.Split(color, key, name, deadline);
  }
  void Abort(const absl::Status& reason) override { inner_.Abort(reason); }
  absl::Status Health() const override { return inner_.Health(); }
  absl::StatusOr<CollectiveCounters> Counters() const override {
    return inner_.Counters();
  }

 private:
  absl::StatusOr<LoweredCall> Lower(Operation operation) override {
    const bool lost = operation.options.label == label_;
    absl::StatusOr<LoweredCall> call = LowerWith(inner_, std::move(operation));
    if (!call.ok() || !lost) return call;
    LaunchLevel& last = call->levels.emplace_back();
    if (broken_ == nullptr) return call;
    absl::StatusOr<LoweredCall> failing =
        LowerWith(*broken_, {.kind = OperationKind::kBarrier});
    if (!failing.ok()) return failing;
    last = std::move(failing->levels.front());
    return call;
  }

  Collective& inner_;
  const std::string label_;
  Collective* const broken_;
};

class LostDecisionTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  // The control of step 2 fails on these ranks and on no other.
  void Run(const ShardedCase& sharded, std::vector<int32_t> losers) {
    const auto want = RunUnsharded(sharded);
    ASSERT_THAT(want, IsOk());
    std::vector<std::vector<ParameterBytes>> parameters(3);
    const auto program = [&](RankContext& context) -> absl::Status {
      const Rank rank = context.rank;
      const bool loses = std::ranges::count(losers, ToInt(rank)) > 0;
      const auto group = [&](const std::string& name, bool alone) {
        return context.plugin.NewGroup(
            {.rank = alone ? Rank(0) : rank,
             .size = alone ? 1 : 3,
             .name = name,
             .deadline = GuardDeadline(context.runtime),
             .store = &context.store});
      };
      auto broken = group(absl::StrCat("alone/", ToInt(rank)), true);
      auto fresh = group("fresh", false);
      if (!broken.ok()) return broken.status();
      if (!fresh.ok()) return fresh.status();
      (*broken)->Abort(absl::UnavailableError("cable pulled"));
      LossyWorld world(*context.world, "control of step 2, least",
                       loses ? broken->get() : nullptr);
      absl::StatusOr<OptimizerRig> rig = MakeRig(sharded, world);
      if (!rig.ok()) return rig.status();
      for (int64_t step = 1; step <= 2; ++step) {
        absl::Status s = TakeRigStep(sharded, rank, step, *rig->optimizer);
        if (!s.ok()) return s;
        s = rig->optimizer->Synchronize();
        EXPECT_EQ(s.ok(), step == 1 || !loses) << s;
      }
      if (loses) {
        EXPECT_THAT(rig->optimizer->BeginStep(1),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             "want Resync on a new group"));
      }
      absl::StatusOr<ShardedOptimizer::Resynced> resynced =
          ShardedOptimizer::Resync(*rig->optimizer, **fresh);
      if (!resynced.ok()) return resynced.status();
      EXPECT_THAT(rig->optimizer->BeginStep(1),
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           "Resync has made another optimizer"));
      rig->optimizer = std::move(resynced->optimizer);
      EXPECT_EQ(resynced->last.step, 2);
      EXPECT_EQ(resynced->last.updated, want->outcomes[1].updated);
      EXPECT_EQ(resynced->last.gradient_norm, want->outcomes[1].gradient_norm);
      absl::Status s = TakeRigStep(sharded, rank, 3, *rig->optimizer);
      if (s.ok()) s = rig->optimizer->Synchronize();
      parameters[static_cast<size_t>(ToInt(rank))] = rig->parameters;
      if (s.ok()) s = MeetAll(**fresh);
      rig->optimizer.reset();
      return s;
    };
    const RankRun run = RunOnRanks({.runtime = GetParam(), .size = 3}, program);
    EXPECT_THAT(run.results, ::testing::Each(IsOk()));
    EXPECT_TRUE(parameters == want->parameters);
  }
};

TEST_P(LostDecisionTest, IsTakenFromTheOthersAndAppliedToWhatWasKept) {
  for (const bool release : {false, true}) {
    ShardedCase sharded = SmallCase();
    sharded.steps = 3;
    sharded.options.release_gradients = release;
    Run(sharded, {1});
    Run(sharded, {0, 2});
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, LostDecisionTest,
                         ::testing::ValuesIn(testing::BothRuntimes(3)),
                         testing::RuntimeCaseName);

INSTANTIATE_TEST_SUITE_P(Runtimes, RecoveryTest,
                         ::testing::ValuesIn(testing::BothRuntimes(3)),
                         testing::RuntimeCaseName);

INSTANTIATE_TEST_SUITE_P(
    Seeds, SimulatedRecoveryTest,
    ::testing::Values(RuntimeCase{.kind = RuntimeCase::Kind::kSim, .seed = 1},
                      RuntimeCase{.kind = RuntimeCase::Kind::kSim, .seed = 2},
                      RuntimeCase{.kind = RuntimeCase::Kind::kSim, .seed = 3}),
    testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
