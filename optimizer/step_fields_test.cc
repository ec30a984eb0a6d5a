#include "optimizer/step_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

TEST(LearningRateOfTest, IsTheProductOfRateScaleAndFactor) {
  ParameterSpec spec = WithSchedule("head");
  spec.learning_rate_scale = 0.5;
  StepOptions options;
  EXPECT_EQ(LearningRateOf(spec, 3, options), 1.5);
  options.schedule_factors["head"] = 0.25;
  EXPECT_EQ(LearningRateOf(spec, 3, options), 0.375);
  spec.schedule.clear();
  EXPECT_EQ(LearningRateOf(spec, 3, options), 1.5);
}

}  // namespace
}  // namespace muonshard
