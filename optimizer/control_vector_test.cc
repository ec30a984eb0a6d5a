#include "optimizer/control_vector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

// A dense matrix over all four ranks and an expert that lives apart over ep.
Plan TwoParameterPlan(AbsentGradient absent) {
  ParameterSpec dense;
  dense.name = "dense";
  dense.rule = Rule::kMuon;
  dense.shape = {4, 4};
  dense.absent_gradient = absent;
  ParameterSpec expert = dense;
  expert.name = "expert";
  expert.roles["ep"] = AxisRole::kDistinct;
  expert.schedule = "experts";
  const Mesh mesh = *Mesh::Parse("data=2,ep=2");
  return *Plan::Create({dense, expert}, mesh,
                       HostMap::FromHostIds({"a", "a", "a", "a"}), {});
}

// What the ranks bring, and the decision of one of them.
class Ballot {
 public:
  explicit Ballot(const Plan& plan) : plan_(plan) {
    for (int32_t r = 0; r < 4; ++r) {
      ControlInput input;
      input.step = 5;
      input.squared_norm.Add(4.0);
      input.absent.assign(2, false);
      input.options.muon_learning_rate = 0.02;
      input.options.adamw_learning_rate = 0.001;
      inputs.push_back(input);
    }
  }

  StepDecision DecisionOf(int32_t rank) const {
    std::vector<int64_t> sums;
    std::vector<int64_t> least;
    for (int32_t r = 0; r < 4; ++r) {
      const ControlVector vector(plan_, Rank{r});
      std::vector<int64_t> own_sums(vector.sum_count());
      std::vector<int64_t> own_least(vector.least_count());
      vector.Encode(inputs[static_cast<size_t>(r)], own_sums, own_least);
      if (r == 0) {
        sums = own_sums;
        least = own_least;
        continue;
      }
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += own_sums[i];
      for (size_t i = 0; i < least.size(); ++i) {
        least[i] = std::min(least[i], own_least[i]);
      }
    }
    return ControlVector(plan_, Rank{rank})
        .Decide(inputs[static_cast<size_t>(rank)], sums, least);
  }

  std::vector<ControlInput> inputs;

 private:
  const Plan& plan_;
};

TEST(ControlVectorTest, TheNormIsThatOfAllRanksTogether) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kError);
  const StepDecision decision = Ballot(plan).DecisionOf(2);
  EXPECT_THAT(decision.status, IsOk());
  EXPECT_TRUE(decision.outcome.updated);
  EXPECT_EQ(decision.outcome.step, 5);
  EXPECT_EQ(decision.outcome.gradient_norm, 4.0);  // sqrt(4 * 4)
  EXPECT_EQ(decision.outcome.clip_factor, 1.0);
}

TEST(ControlVectorTest, AClipNormBelowTheNormScalesDown) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kError);
  Ballot ballot(plan);
  for (ControlInput& input : ballot.inputs) input.options.clip_norm = 1;
  EXPECT_EQ(ballot.DecisionOf(0).outcome.clip_factor, 1 / (4.0 + 1e-6));
}

TEST(ControlVectorTest, TheLossScaleDividesTheNormAndTheGradients) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kError);
  Ballot ballot(plan);
  for (ControlInput& input : ballot.inputs) {
    input.options.clip_norm = 0.25;
    input.options.loss_scale = 8;
  }
  const StepDecision decision = ballot.DecisionOf(1);
  EXPECT_EQ(decision.outcome.gradient_norm, 0.5);
  EXPECT_EQ(decision.outcome.clip_factor, 0.25 / (0.5 + 1e-6));
  EXPECT_EQ(decision.gradient_factor, decision.outcome.clip_factor / 8);
}

TEST(ControlVectorTest, GoodGradientsThatDividedExceedF32AreAnError) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kError);
  Ballot ballot(plan);
  for (ControlInput& input : ballot.inputs) {
    input.squared_norm.Add(1e60);
    input.options.loss_scale = 0x1p-30;
  }
  const StepDecision decision = ballot.DecisionOf(3);
  EXPECT_THAT(decision.status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "want a loss scale with which f32 holds the gradients"));
  EXPECT_FALSE(decision.outcome.updated);
  for (ControlInput& input : ballot.inputs) input.options.clip_norm = 1;
  EXPECT_TRUE(ballot.DecisionOf(3).outcome.updated);
  // What is found not to be finite is skipped, as ever.
  for (ControlInput& input : ballot.inputs) {
    input.options.clip_norm = 0;
    input.non_finite_count = 1;
  }
  EXPECT_THAT(ballot.DecisionOf(3).status, IsOk());
}

TEST(ControlVectorTest, EveryFactThatDiffersIsNamed) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kError);
  const auto expect = [&](auto change, const char* name) {
    Ballot ballot(plan);
    change(ballot.inputs[3]);
    for (const int32_t rank : {0, 3}) {
      const StepDecision decision = ballot.DecisionOf(rank);
      EXPECT_THAT(decision.status,
                  StatusIs(absl::StatusCode::kFailedPrecondition, name));
      EXPECT_FALSE(decision.outcome.updated);
    }
  };
  expect([](ControlInput& i) { i.step = 6; }, "step number");
  expect([](ControlInput& i) { i.micro_batches = 2; }, "micro-batches");
  expect([](ControlInput& i) { i.options.clip_norm = 0.5; }, "clip_norm");
  expect([](ControlInput& i) { i.options.muon_learning_rate = 0.03; },
         "muon_learning_rate");
  expect([](ControlInput& i) { i.options.adamw_learning_rate = 0.03; },
         "adamw_learning_rate");
  expect([](ControlInput& i) { i.options.loss_scale = 2; }, "loss_scale");
  expect([](ControlInput& i) { i.options.schedule_factors["experts"] = 0.5; },
         "schedule_factors[\"experts\"]");
}

// Numbers are mixed as SplitMix64 mixes its state, which loses nothing before
// the last bit is dropped. Held to the outputs that are published for the seed
// 1234567, whose states are as far apart as the golden ratio says.
TEST(ControlVectorTest, NumbersAreMixedByAFunctionThatIsOneToOne) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kError);
  const ControlVector vector(plan, Rank{0});
  constexpr size_t kClipNorm = 2;  // Behind step number and micro-batches.
  uint64_t state = 1234567;
  for (const uint64_t output :
       {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
        4593380528125082431u, 16408922859458223821u}) {
    ControlInput input = Ballot(plan).inputs[0];
    input.options.clip_norm = std::bit_cast<double>(state);
    std::vector<int64_t> sums(vector.sum_count());
    std::vector<int64_t> least(vector.least_count());
    vector.Encode(input, sums, least);
    const auto mixed = static_cast<int64_t>(output >> 1);
    EXPECT_EQ(least[2 * kClipNorm], mixed);
    EXPECT_EQ(least[2 * kClipNorm + 1], -mixed);
    state += 0x9e3779b97f4a7c15u;
  }
}

TEST(ControlVectorTest, TheFirstFailureByParameterThenRankIsNamed) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kError);
  Ballot ballot(plan);
  ballot.inputs[1].failure =
      StepFailure{.parameter = 1, .kind = FailureKind::kTooManyCheckIns};
  ballot.inputs[2].failure =
      StepFailure{.parameter = 0, .kind = FailureKind::kWrongGradient};
  ballot.inputs[3].failure =
      StepFailure{.parameter = 0, .kind = FailureKind::kTooFewCheckIns};
  EXPECT_THAT(ballot.DecisionOf(0).status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "parameter \"dense\" was checked in with a gradient of "
                       "the wrong size or dtype on rank 2"));
}

TEST(ControlVectorTest, AFailedReductionOnOneRankFailsAll) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kError);
  Ballot ballot(plan);
  ballot.inputs[3].failure =
      StepFailure{.parameter = 1, .kind = FailureKind::kFailedReduction};
  EXPECT_THAT(ballot.DecisionOf(0).status,
              StatusIs(absl::StatusCode::kAborted,
                       "the bucket of parameter \"expert\" failed on rank 3"));
}

TEST(ControlVectorTest, NonFiniteElementsSkipWithoutAnError) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kError);
  Ballot ballot(plan);
  ballot.inputs[1].non_finite_count = 3;
  const StepDecision decision = ballot.DecisionOf(0);
  EXPECT_THAT(decision.status, IsOk());
  EXPECT_FALSE(decision.outcome.updated);
  EXPECT_EQ(decision.outcome.non_finite_count, 3);
}

// A rank whose gradient should be that of another, and is not, must not update
// with it.
TEST(ControlVectorTest, WhatIsNotFiniteSkipsTheStepEvenWhereNoNormCountsIt) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kError);
  Ballot ballot(plan);
  ballot.inputs[3].uncounted_non_finite_count = 2;
  for (int32_t rank = 0; rank < 4; ++rank) {
    const StepDecision decision = ballot.DecisionOf(rank);
    EXPECT_FALSE(decision.outcome.updated);
    EXPECT_EQ(decision.outcome.non_finite_count, 2);
  }
  // Where it was counted, copies of it are not counted again.
  ballot.inputs[0].non_finite_count = 1;
  EXPECT_EQ(ballot.DecisionOf(0).outcome.non_finite_count, 1);
}

TEST(ControlVectorTest, EachParameterIsCountedByItself) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kSkip);
  for (const size_t absent : {0, 1}) {
    Ballot ballot(plan);
    for (ControlInput& input : ballot.inputs) input.absent[absent] = true;
    for (int32_t rank = 0; rank < 4; ++rank) {
      const std::vector<bool> everywhere =
          ballot.DecisionOf(rank).absent_everywhere;
      EXPECT_TRUE(everywhere[absent]);
      EXPECT_FALSE(everywhere[1 - absent]);
    }
  }
}

TEST(ControlVectorTest, AnExpertIsAbsentOnlyWhereItLives) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kSkip);
  Ballot ballot(plan);
  // Ranks 1 and 3 hold the second expert; rank 0 alone lacks the first.
  ballot.inputs[0].absent[1] = true;
  ballot.inputs[1].absent[1] = true;
  ballot.inputs[3].absent[1] = true;
  for (const int32_t rank : {0, 2}) {
    EXPECT_FALSE(ballot.DecisionOf(rank).absent_everywhere[1]);
  }
  for (const int32_t rank : {1, 3}) {
    EXPECT_TRUE(ballot.DecisionOf(rank).absent_everywhere[1]);
    EXPECT_FALSE(ballot.DecisionOf(rank).absent_everywhere[0]);
  }
}

TEST(ControlVectorTest, AnExpertThatHasNoGradientWhereItLivesIsAnError) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kError);
  Ballot ballot(plan);
  ballot.inputs[1].absent[1] = true;
  EXPECT_THAT(ballot.DecisionOf(0).status, IsOk());
  ballot.inputs[3].absent[1] = true;
  EXPECT_THAT(ballot.DecisionOf(0).status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "parameter \"expert\" has a gradient on none of its 2 "
                       "ranks at ep=1"));
}

TEST(ControlVectorTest, AnyParameterWithoutAGradientIsAnErrorEvenTheFirst) {
  const Plan plan = TwoParameterPlan(AbsentGradient::kError);
  Ballot ballot(plan);
  for (const size_t rank : {0, 1, 2}) ballot.inputs[rank].absent[0] = true;
  EXPECT_THAT(ballot.DecisionOf(0).status, IsOk());
  ballot.inputs[3].absent[0] = true;
  EXPECT_THAT(ballot.DecisionOf(0).status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "parameter \"dense\" has a gradient on none of its 4 "
                       "ranks; want one"));
}

TEST(ControlVectorTest, AFieldOutOfRangeOnOneRankIsNamedOnAll) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Plan plan = TwoParameterPlan(AbsentGradient::kError);
  StepOptions options;
  const ControlVector vector(plan, Rank{0});
  EXPECT_EQ(vector.Check({}, options), std::nullopt);
  const auto expect = [&](const std::string& text) {
    Ballot ballot(plan);
    ballot.inputs[2].options = options;
    ballot.inputs[2].failure = vector.Check({}, options);
    ASSERT_TRUE(ballot.inputs[2].failure.has_value());
    EXPECT_THAT(
        ballot.DecisionOf(0).status,
        StatusIs(absl::StatusCode::kInvalidArgument, "rank 2 gave " + text));
  };
  options.muon_learning_rate = options.adamw_learning_rate = 1e20;
  expect("parameter \"" + plan.specs[0].name +
         "\" a learning rate that is too large for f32");
  options.schedule_factors["xperts"] = 1;
  expect("the factor of a schedule that no parameter has");
  options.schedule_factors["experts"] = -0.5;
  expect("schedule_factors[\"experts\"] out of range; want it finite and >= 0");
  options.loss_scale = infinity;
  expect("loss_scale out of range; want it in [1.17549e-38, 3.40282e+38]");
  options.adamw_learning_rate = infinity;
  expect("adamw_learning_rate out of range; want it finite and >= 0");
  options.muon_learning_rate = -1;
  expect("muon_learning_rate out of range");
  options.clip_norm = std::numeric_limits<double>::quiet_NaN();
  expect("clip_norm out of range");
}

}  // namespace
}  // namespace muonshard
