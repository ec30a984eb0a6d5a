// Some explored steps, few enough for the sanitizers, which look at the memory
// that a schedule touches too early or leaves behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "collectives/runtime/sim_scheduler.h"
#include "testing/exploration/experiment.h"
#include "testing/exploration/seeded_schedule.h"
#include "testing/exploration/step_experiment.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

TEST(StepExperimentSampleTest, StepsHoldUnderSomeSchedulesOfEachKind) {
  const StepExperimentOptions varied = {.vary = true};
  const StepExperimentOptions with_faults = {.faults = "draw"};
  for (const StepExperimentOptions& options :
       {StepExperimentOptions(), varied, with_faults}) {
    absl::StatusOr<std::unique_ptr<Experiment>> experiment =
        NewStepExperiment(options);
    ASSERT_THAT(experiment, IsOk());
    // Not in child processes, whose leaks nobody would look for.
    for (uint64_t seed = 1; seed <= kScheduleKinds; ++seed) {
      const std::unique_ptr<SimScheduler> scheduler =
          NewSeededScheduler(seed, 20'000);
      EXPECT_THAT((*experiment)->Run({.scheduler = *scheduler}, seed).result,
                  IsOk())
          << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace muonshard::testing
