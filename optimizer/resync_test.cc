#include "optimizer/resync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

TEST(CommonStepTest, RanksThatDecidedTheSameTakeNothingFromOneAnother) {
  for (const int64_t step : {0, 7}) {
    const std::vector<StepStanding> standings(3, {.decided = step});
    const auto common = CommonStepOf(standings);
    ASSERT_THAT(common, IsOk());
    EXPECT_EQ(common->step, step);
    EXPECT_FALSE(common->teller.has_value());
  }
}

TEST(CommonStepTest, AStepThatNobodyDecidedIsTakenFromNobody) {
  const std::vector<StepStanding> standings = {
      {.decided = 4, .kept = 5}, {.decided = 4}, {.decided = 4, .kept = 5}};
  const auto common = CommonStepOf(standings);
  ASSERT_THAT(common, IsOk());
  EXPECT_EQ(common->step, 4);
  EXPECT_FALSE(common->teller.has_value());
}

TEST(CommonStepTest, TheFirstRankThatDecidedTellsThoseThatDidNot) {
  const std::vector<StepStanding> standings = {{.decided = 4, .kept = 5},
                                               {.decided = 4, .kept = 5},
                                               {.decided = 5},
                                               {.decided = 5}};
  const auto common = CommonStepOf(standings);
  ASSERT_THAT(common, IsOk());
  EXPECT_EQ(common->step, 5);
  EXPECT_EQ(common->teller, Rank{2});
}

TEST(CommonStepTest, EveryRankThatCannotFollowIsNamed) {
  const std::vector<StepStanding> standings = {{.decided = 5},
                                               {.decided = 4},
                                               {.decided = 4, .kept = 5},
                                               {.decided = 2, .kept = 3}};
  EXPECT_THAT(
      CommonStepOf(standings),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               "want every rank to have decided step 5 or to have kept its "
               "gradients, got: rank 1 decided step 4 last and kept no other, "
               "rank 3 decided step 2 last and kept step 3; only state "
               "restored on all ranks helps"));
}

}  // namespace
}  // namespace muonshard
