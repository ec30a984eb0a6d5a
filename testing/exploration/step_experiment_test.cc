#include "testing/exploration/step_experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <memory>

#include "absl/status/statusor.h"
#include "testing/exploration/explorer.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

// The budget that every change is tried with; `muonshard explore` has no end.
constexpr int64_t kSeeds = 300;

class StepExperimentTest : public ::testing::TestWithParam<bool> {
 protected:
  static std::unique_ptr<Experiment> Make() {
    absl::StatusOr<std::unique_ptr<Experiment>> experiment =
        NewStepExperiment({.vary = GetParam()});
    EXPECT_THAT(experiment, IsOk());
    return *std::move(experiment);
  }
};

TEST_P(StepExperimentTest, StepsHoldUnderAllSchedulesOfABudget) {
  const std::unique_ptr<Experiment> experiment = Make();
  const absl::StatusOr<ExploreSummary> summary =
      Explore(*experiment, {.seed_count = kSeeds, .processes = 2});
  ASSERT_THAT(summary, IsOk());
  for (const RecordedRun& failed : summary->failures) {
    ADD_FAILURE() << "seed " << failed.seed << ": " << failed.result;
  }
  EXPECT_EQ(summary->run_count, kSeeds);
  std::cout << kSeeds << " runs of " << summary->distinct_count
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

INSTANTIATE_TEST_SUITE_P(Experiments, StepExperimentTest, ::testing::Bool(),
                         [](const auto& param) {
                           return param.param ? "Varied" : "Default";
                         });

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
