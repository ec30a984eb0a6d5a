#include "optimizer/step_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;
using ::testing::ElementsAre;

ParameterSpec WithSchedule(const std::string& schedule) {
  ParameterSpec spec;
  spec.schedule = schedule;
  return spec;
}

TEST(SchedulesOfTest, AreAscendingAndEachOnce) {
  EXPECT_THAT(SchedulesOf({WithSchedule("head"), WithSchedule(""),
                           WithSchedule("body"), WithSchedule("head")}),
              ElementsAre("body", "head"));
}

TEST(StepFieldsTest, EveryScheduleHasAFactorAndItIsOneIfNotGiven) {
  StepOptions options;
  options.schedule_factors["head"] = 0.5;
  const std::vector<StepField> fields = FieldsOf(options, {"body", "head"});
  ASSERT_EQ(fields.size(), 6);
  EXPECT_EQ(fields[4].name, "schedule_factors[\"body\"]");
  EXPECT_EQ(fields[4].value, 1);
  EXPECT_EQ(fields[5].value, 0.5);
}

void Refuse(const StepOptions& options, const std::string& text) {
  EXPECT_THAT(Validate(options, {"body"}),
              StatusIs(absl::StatusCode::kInvalidArgument, text));
}

TEST(StepFieldsTest, WhatIsInRangeIsTaken) {
  StepOptions options;
  EXPECT_THAT(Validate(options, {}), IsOk());
  options.muon_learning_rate = 0;
  options.adamw_learning_rate = std::numeric_limits<double>::max();
  options.schedule_factors["body"] = 0;
  for (const double scale : {kLossScaleMin, 1.0, kLossScaleMax}) {
    options.loss_scale = scale;
    EXPECT_THAT(Validate(options, {"body"}), IsOk());
  }
}

TEST(StepFieldsTest, EveryFieldOutOfRangeIsNamedWithItsRange) {
  for (const double bad : {-1.0, HUGE_VAL, std::nan("")}) {
    Refuse({.clip_norm = bad}, "clip_norm: want finite and >= 0, got");
    Refuse({.muon_learning_rate = bad},
           "muon_learning_rate: want finite and >= 0, got");
    Refuse({.adamw_learning_rate = bad},
           "adamw_learning_rate: want finite and >= 0, got");
    Refuse({.schedule_factors = {{"body", bad}}},
           "schedule_factors[\"body\"]: want finite and >= 0, got");
    Refuse({.loss_scale = bad},
           "loss_scale: want in [1.17549e-38, 3.40282e+38], got");
  }
  Refuse({.loss_scale = 0}, "loss_scale");
  Refuse({.loss_scale = kLossScaleMin / 2}, "loss_scale");
  Refuse({.loss_scale = kLossScaleMax * 2}, "loss_scale");
}

TEST(StepFieldsTest, AScheduleThatNoParameterHasIsNamed) {
  Refuse({.schedule_factors = {{"body", 1}, {"haed", 1}}},
         "no parameter has the schedule \"haed\"");
}

TEST(RatesOfTest, TheLearningRateIsTheProductOfRateScaleAndFactor) {
  for (const Rule rule : {Rule::kMuon, Rule::kAdamW}) {
    ParameterSpec spec = WithSchedule("head");
    spec.rule = rule;
    spec.learning_rate_scale = 0.5;
    OptimizerOptions options;
    options.muon.learning_rate = options.adamw.learning_rate = 3;
    StepOptions step;
    EXPECT_EQ(RatesOf(spec, options, step).learning_rate, 1.5);
    step.schedule_factors["head"] = 0.25;
    EXPECT_EQ(RatesOf(spec, options, step).learning_rate, 0.375);
    (rule == Rule::kMuon ? step.muon_learning_rate : step.adamw_learning_rate) =
        6;
    EXPECT_EQ(RatesOf(spec, options, step).learning_rate, 0.75);
    spec.schedule.clear();
    EXPECT_EQ(RatesOf(spec, options, step).learning_rate, 3);
  }
}

TEST(RatesOfTest, TheWeightDecayIsTheRulesUnlessTheParameterHasNone) {
  OptimizerOptions options;
  options.muon.weight_decay = 0.25;
  options.adamw.weight_decay = 0.5;
  ParameterSpec spec;
  spec.rule = Rule::kMuon;
  EXPECT_EQ(RatesOf(spec, options, {}).weight_decay, 0.25);
  spec.rule = Rule::kAdamW;
  EXPECT_EQ(RatesOf(spec, options, {}).weight_decay, 0.5);
  spec.weight_decay = false;
  EXPECT_EQ(RatesOf(spec, options, {}).weight_decay, 0);
}

// What options that are each in range make together.
struct RatesCase {
  ParameterSpec spec = WithSchedule("warm");
  OptimizerOptions options;
  StepOptions step;
  // To AdamW's, the smallest 1 / (1 - beta1) of a step and the least decay.
  RatesCase() {
    spec.name = "up";
    spec.rule = Rule::kAdamW;
    options.adamw = {.learning_rate = 1, .weight_decay = 0, .beta1 = 0};
    options.muon.learning_rate = 1;
    options.muon.weight_decay = 0;
  }
  absl::Status Check() const { return CheckRates(spec, options, step); }
};

const auto kTooLarge = StatusIs(absl::StatusCode::kInvalidArgument,
                                "parameter \"up\": want a learning rate of at "
                                "most ");

TEST(CheckRatesTest, EachFactorMayBringTheRateToItsBoundAndNotBeyond) {
  const auto expect = [](const std::function<void(RatesCase&, double)>& set) {
    RatesCase at;
    set(at, 1);
    EXPECT_THAT(at.Check(), IsOk());
    RatesCase beyond;
    set(beyond, 1 + 0x1p-50);
    EXPECT_THAT(beyond.Check(), kTooLarge);
  };
  expect([](RatesCase& c, double x) {
    c.options.adamw.learning_rate = kLearningRateMax * x;
  });
  expect([](RatesCase& c, double x) {
    c.step.adamw_learning_rate = kLearningRateMax * x;
  });
  expect([](RatesCase& c, double x) {
    c.spec.learning_rate_scale = kLearningRateMax * x;
  });
  expect([](RatesCase& c, double x) {
    c.step.schedule_factors["warm"] = kLearningRateMax * x;
  });
  expect([](RatesCase& c, double x) {
    c.options.adamw.weight_decay = kLearningRateMax * x;
  });
  expect([](RatesCase& c, double x) {
    c.options.adamw.beta1 = 0.75;
    c.options.adamw.learning_rate = kLearningRateMax / 4 * x;
  });
  expect([](RatesCase& c, double x) {
    c.spec.rule = Rule::kMuon;
    c.step.muon_learning_rate = kLearningRateMax * x;
  });
  expect([](RatesCase& c, double x) {
    c.spec.rule = Rule::kMuon;
    c.options.muon.scale = MuonScale::kMatchAdamWRms;
    c.options.muon.rms_factor = kLearningRateMax * x;
  });
}

TEST(CheckRatesTest, AProductThatIsNoNumberIsTooLarge) {
  RatesCase c;
  c.step.adamw_learning_rate = std::numeric_limits<double>::max();
  c.spec.learning_rate_scale = 2;
  EXPECT_THAT(c.Check(), kTooLarge);
  c.step.schedule_factors["warm"] = 0;
  EXPECT_THAT(c.Check(), kTooLarge);
}

}  // namespace
}  // namespace muonshard
