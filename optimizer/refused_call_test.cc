// A call that one rank refuses to make ends the step on all ranks at once: the
// others neither wait for it until their deadlines nor take the step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/optimizer_rig.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::GuardDeadline;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::MeetAll;
using ::muonshard::testing::OptimizerRig;
using ::muonshard::testing::ParameterBytes;
using ::muonshard::testing::RankRun;
using ::muonshard::testing::RunOnRanks;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::StatusIs;
using ::muonshard::testing::TakeRigStep;
using ::testing::Each;
using ::testing::HasSubstr;

// A group, and those split from it, that refuses the calls with `label` in
// their labels. Nothing is sent, and nothing is refused before its inputs are
// there: so what came before it has ended on all ranks.
class RefusingCollective final : public Collective {
 public:
  RefusingCollective(Collective& group, std::string label)
      : Collective(group.runtime(), group.rank(), group.size(), group.name(),
                   group.capabilities()),
        group_(group),
        label_(std::move(label)) {}

  absl::StatusOr<std::unique_ptr<Collective>> Split(
      int32_t color, int32_t key, absl::string_view name,
      absl::Time deadline) override {
    absl::StatusOr<std::unique_ptr<Collective>> part =
        group_.Split(color, key, name, deadline);
    if (!part.ok() || *part == nullptr) return part;
    auto refusing = std::make_unique<RefusingCollective>(**part, label_);
    refusing->owned_ = *std::move(part);
    return refusing;
  }
  void Abort(const absl::Status& reason) override { group_.Abort(reason); }
  absl::Status Health() const override { return group_.Health(); }
  absl::StatusOr<CollectiveCounters> Counters() const override {
    return group_.Counters();
  }

 private:
  absl::StatusOr<LoweredCall> Lower(Operation operation) override {
    if (label_.empty() || !absl::StrContains(operation.options.label, label_)) {
      return LowerWith(group_, std::move(operation));
    }
    for (const Event& ready : operation.options.ready) {
      const absl::Status s = ready.Wait(GuardDeadline(runtime()));
      if (!s.ok()) return s;
    }
    return absl::UnavailableError(
        absl::StrCat("refused ", operation.options.label));
  }

  std::unique_ptr<Collective> owned_;
  Collective& group_;
  const std::string label_;
};

class RefusedCallTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  // What Synchronize and the next BeginStep say on each rank if rank 1 refuses
  // the calls of a step that `label` names. No rank may move a parameter.
  struct Answers {
    std::vector<absl::Status> step;
    std::vector<absl::Status> next_begin;
  };
  static Answers StepWithout(const std::string& label, ShardedCase sharded) {
    // A rank that is left to wait says so before the guard of the harness does.
    sharded.options.timeout = absl::Seconds(20);
    const int32_t size = Mesh::Parse(sharded.mesh)->size();
    const std::vector<absl::Status> none(static_cast<size_t>(size));
    Answers answers{.step = none, .next_begin = none};
    const RankRun run = RunOnRanks(
        {.runtime = GetParam(), .size = size}, [&](Collective& world) {
          const Rank rank = world.rank();
          RefusingCollective refusing(world, rank == Rank{1} ? label : "");
          absl::StatusOr<OptimizerRig> rig = MakeRig(sharded, refusing);
          if (!rig.ok()) return rig.status();
          const std::vector<ParameterBytes> before = rig->parameters;
          absl::Status s = TakeRigStep(sharded, rank, 1, *rig->optimizer);
          if (!s.ok()) return s;
          const auto r = static_cast<size_t>(ToInt(rank));
          answers.step[r] = rig->optimizer->Synchronize();
          answers.next_begin[r] = rig->optimizer->BeginStep(1);
          EXPECT_TRUE(rig->parameters == before);
          // An optimizer that is destroyed breaks its groups too.
          return MeetAll(world);
        });
    EXPECT_THAT(run.results, Each(IsOk()));
    return answers;
  }
};

TEST_P(RefusedCallTest, AGatherThatOneRankRefusesEndsOnAllRanks) {
  const Answers answers = StepWithout("gather of step 1", SmallCase());
  EXPECT_THAT(answers.step[1],
              StatusIs(absl::StatusCode::kUnavailable, "refused bucket"));
  for (const size_t peer : {size_t{0}, size_t{2}}) {
    EXPECT_THAT(answers.step[peer],
                StatusIs(absl::StatusCode::kAborted, "refused bucket"));
  }
  // The new parameters are lost, so nothing may build on them.
  for (const absl::Status& next : answers.next_begin) {
    EXPECT_THAT(next.message(), HasSubstr("this optimizer cannot go on"));
  }
}

TEST_P(RefusedCallTest, AReductionThatOneRankRefusesEndsOnAllRanks) {
  const Answers answers = StepWithout("reduction of step 1", SmallCase());
  for (const absl::Status& step : answers.step) {
    EXPECT_THAT(step, StatusIs(absl::StatusCode::kAborted,
                               "the step was not taken: the reduction of the "
                               "bucket of parameter"));
    EXPECT_THAT(step, StatusIs(absl::StatusCode::kAborted, "refused bucket"));
  }
}

ShardedCase ReplicatedCase() {
  ShardedCase sharded = SmallCase();
  sharded.mesh = "dp=2,data=2";
  for (ParameterSpec& spec : sharded.specs) {
    spec.roles["dp"] = AxisRole::kReplicate;
  }
  return sharded;
}

// The replicas of the rank that refuses never meet it in the first level.
TEST_P(RefusedCallTest, ARefusedFirstLevelEndsTheSecondOnItsReplicas) {
  const Answers answers = StepWithout("reduction of step 1", ReplicatedCase());
  for (const absl::Status& step : answers.step) {
    EXPECT_THAT(step, StatusIs(absl::StatusCode::kAborted, "refused bucket"));
  }
}

TEST_P(RefusedCallTest, ARefusedSecondLevelEndsTheStepOnAllRanks) {
  const Answers answers =
      StepWithout("reduction over replicas of step 1", ReplicatedCase());
  for (const absl::Status& step : answers.step) {
    EXPECT_THAT(step, StatusIs(absl::StatusCode::kAborted,
                               "the step was not taken: the reduction of the "
                               "bucket of parameter"));
  }
  // Others may have had their sums before the groups were broken.
  for (const size_t replica : {size_t{1}, size_t{3}}) {
    EXPECT_THAT(answers.step[replica],
                StatusIs(absl::StatusCode::kAborted, "refused bucket"));
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, RefusedCallTest,
                         ::testing::ValuesIn(testing::BothRuntimes(5)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
