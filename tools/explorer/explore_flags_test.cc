#include "tools/explorer/explore_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/data_type.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using testing::IsOk;
using testing::StatusIs;
using testing::StepExperimentOptions;

TEST(ExploreFlags, OfAnExperimentGoThroughTheirText) {
  StepExperimentOptions options;
  options.mesh = "ep=2,data=3";
  options.lanes_per_node = 3;
  options.combination = {.overlap = true,
                         .hierarchy = Hierarchy::kAuto,
                         .scaler = true,
                         .micro_batches = 4,
                         .precision = DataType::kF16,
                         .gather = GatherMode::kLazy,
                         .release_gradients = true,
                         .absent = AbsentGradient::kSkip};
  for (const bool vary : {false, true}) {
    options.vary = vary;
    const auto got = ParseExperimentFlags(ExperimentFlags(options));
    ASSERT_THAT(got, IsOk());
    EXPECT_EQ(got->vary, vary);
    EXPECT_EQ(ExperimentFlags(*got), ExperimentFlags(options));
  }
  options.vary = false;
  EXPECT_EQ(ExperimentFlags(options),
            "--mesh=ep=2,data=3 --lanes-per-node=3 --overlap=on "
            "--hierarchical=auto --scaler=on --accumulate=4 --precision=fp16 "
            "--gather=lazy --release-gradients=on --absent=skip");
}

TEST(ExploreFlags, FaultsGoThroughTheirText) {
  for (const char* faults :
       {"draw", "late rank=1 at=4 ns=5; die rank=3 before=17"}) {
    StepExperimentOptions options;
    options.faults = faults;
    const auto got = ParseExperimentFlags(ExperimentFlags(options));
    ASSERT_THAT(got, IsOk());
    EXPECT_EQ(got->faults, faults);
    EXPECT_EQ(ExperimentFlags(*got), ExperimentFlags(options));
  }
}

TEST(ExploreFlags, OfASearchAreRead) {
  const std::vector<absl::string_view> arguments = {
      "--seeds=20",           "--first-seed=7",  "--processes=3",
      "--failures=2",         "--shrink-runs=0", "--traces=there",
      "--run-limit-seconds=7"};
  const auto flags = ParseExploreFlags(arguments);
  ASSERT_THAT(flags, IsOk());
  EXPECT_EQ(flags->search.seed_count, 20);
  EXPECT_EQ(flags->search.first_seed, 7u);
  EXPECT_EQ(flags->search.processes, 3);
  EXPECT_EQ(flags->search.failure_count_max, 2);
  EXPECT_EQ(flags->shrink_runs, 0);
  EXPECT_EQ(flags->traces_folder, "there");
  EXPECT_EQ(flags->search.run_limit, absl::Seconds(7));
}

TEST(ExploreFlags, ALimitOnARunIsAtLeastASecondAndAtMostADay) {
  for (const absl::string_view seconds : {"0", "-1", "86401", "1.5", "soon"}) {
    const std::string flag = absl::StrCat("--run-limit-seconds=", seconds);
    EXPECT_THAT(
        ParseExploreFlags(std::vector<absl::string_view>{flag}),
        StatusIs(absl::StatusCode::kInvalidArgument, "--run-limit-seconds"));
  }
  const auto standard = ParseExploreFlags({});
  ASSERT_THAT(standard, IsOk());
  EXPECT_EQ(standard->search.run_limit, absl::Seconds(60));
}

TEST(ExploreFlags, AReplayTakesNoOtherFlagButTheLimitOnARun) {
  const auto status = [](std::vector<absl::string_view> arguments) {
    return ParseExploreFlags(arguments).status();
  };
  EXPECT_THAT(status({"--replay=a"}), IsOk());
  EXPECT_THAT(status({"--replay", "a"}), IsOk());
  EXPECT_THAT(status({"--replay=a", "--run-limit-seconds=9"}), IsOk());
  EXPECT_THAT(
      status({"--replay=a", "--run-limit-seconds=9", "--seeds=2"}),
      StatusIs(absl::StatusCode::kInvalidArgument, "want no other flag"));
  EXPECT_THAT(
      status({"--replay=a", "--seeds=2"}),
      StatusIs(absl::StatusCode::kInvalidArgument, "want no other flag"));
  EXPECT_THAT(
      status({"--vary", "--replay=a"}),
      StatusIs(absl::StatusCode::kInvalidArgument, "want no other flag"));
}

}  // namespace
}  // namespace muonshard
