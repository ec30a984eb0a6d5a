#include "testing/exploration/step_experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "optimizer/parameter_spec.h"
#include "testing/exploration/explorer.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

enum class Kind { kDefault, kVaried, kWithFaults };

// The budget that every change is tried with; `muonshard explore` has no end. A
// run with faults is three or four others.
int64_t SeedCount(Kind kind) { return kind == Kind::kWithFaults ? 60 : 300; }

class StepExperimentTest : public ::testing::TestWithParam<Kind> {
 protected:
  static std::unique_ptr<Experiment> Make() {
    absl::StatusOr<std::unique_ptr<Experiment>> experiment = NewStepExperiment(
        {.vary = GetParam() == Kind::kVaried,
         .faults = GetParam() == Kind::kWithFaults ? "draw" : ""});
    EXPECT_THAT(experiment, IsOk());
    return *std::move(experiment);
  }
};

TEST_P(StepExperimentTest, StepsHoldUnderAllSchedulesOfABudget) {
  const std::unique_ptr<Experiment> experiment = Make();
  const int64_t seed_count = SeedCount(GetParam());
  const absl::StatusOr<ExploreSummary> summary =
      Explore(*experiment, {.seed_count = seed_count, .processes = 2});
  ASSERT_THAT(summary, IsOk());
  for (const RecordedRun& failed : summary->failures) {
    ADD_FAILURE() << "seed " << failed.seed << ": " << failed.result;
  }
  EXPECT_EQ(summary->run_count, seed_count);
  std::cout << seed_count << " runs of " << summary->distinct_count
            << " schedules\n";
}

TEST_P(StepExperimentTest, ASeedGivesTheSameTraceTwice) {
  const std::unique_ptr<Experiment> experiment = Make();
  const ExploreOptions options = {.first_seed = 1000, .seed_count = 10};
  const absl::StatusOr<ExploreSummary> one = Explore(*experiment, options);
  const absl::StatusOr<ExploreSummary> two = Explore(*Make(), options);
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(two, IsOk());
  EXPECT_EQ(one->hash, two->hash);
}

std::string NameOf(const ::testing::TestParamInfo<Kind>& info) {
  if (info.param == Kind::kDefault) return "Default";
  return info.param == Kind::kVaried ? "Varied" : "WithFaults";
}

INSTANTIATE_TEST_SUITE_P(Experiments, StepExperimentTest,
                         ::testing::Values(Kind::kDefault, Kind::kVaried,
                                           Kind::kWithFaults),
                         NameOf);

TEST(StepExperiment, APlanOfFaultsHoldsUnderEverySchedule) {
  const absl::StatusOr<std::unique_ptr<Experiment>> experiment =
      NewStepExperiment(
          {.faults = "late rank=2 at=3 ns=5; die rank=6 after=40"});
  ASSERT_THAT(experiment, IsOk());
  const absl::StatusOr<ExploreSummary> summary =
      Explore(**experiment, {.seed_count = 20, .processes = 2});
  ASSERT_THAT(summary, IsOk());
  for (const RecordedRun& failed : summary->failures) {
    ADD_FAILURE() << "seed " << failed.seed << ": " << failed.result;
  }
  EXPECT_EQ(summary->run_count, 20);
}

TEST(StepExperiment, RefusesFaultsThatCannotHappen) {
  const auto refused = [](const std::string& faults) {
    return NewStepExperiment({.faults = faults}).status();
  };
  EXPECT_THAT(refused("die rank=1"),
              StatusIs(absl::StatusCode::kInvalidArgument, "one operation"));
  EXPECT_THAT(refused("die rank=8 before=1"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "fault \"die rank=8 before=1\": want a rank in [0, 8), "
                       "got 8"));
  EXPECT_THAT(refused("lose rank=1 at=9999"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "as many as rank 1 has in the run without faults, got "
                       "9999"));
  EXPECT_THAT(refused("die rank=3 before=5; die rank=3 before=9"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "fault \"die rank=3 before=9\": not reached"));
  EXPECT_THAT(NewStepExperiment({.vary = true, .faults = "draw"}),
              StatusIs(absl::StatusCode::kInvalidArgument, "faults: want one"));
  StepExperimentOptions failing = {.faults = "draw"};
  failing.combination.absent = AbsentGradient::kError;
  EXPECT_THAT(NewStepExperiment(failing),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "faults: want a case that holds"));
}

TEST(StepExperiment, RefusesWhatIsNoExperiment) {
  EXPECT_THAT(NewStepExperiment({.mesh = "data=0"}),
              StatusIs(absl::StatusCode::kInvalidArgument, "data"));
  EXPECT_THAT(NewStepExperiment({.lanes_per_node = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, "lanes per node"));
  EXPECT_THAT(NewStepExperiment({.mesh = "data=3,tp=1", .lanes_per_node = 2}),
              StatusIs(absl::StatusCode::kFailedPrecondition, "hierarchy"));
}

}  // namespace
}  // namespace muonshard::testing
