// Some ranks never get the result of one operation that the others have, in a
// step or in a Resync, and Resync brings all to the same bits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "testing/rank_harness.h"
#include "testing/recovery/resync_run.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::LostResult;
using ::muonshard::testing::ResyncRun;
using ::muonshard::testing::RunResyncs;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RunUnsharded;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::StatusIs;
using ::testing::Each;

constexpr char kControl[] = "control of step 2, least";
constexpr char kEnd[] = "resync: end";

ShardedCase ThreeSteps() {
  ShardedCase sharded = SmallCase();
  sharded.steps = 3;
  // Nearer than the deadline for the making of the next world.
  sharded.options.timeout = absl::Seconds(3);
  return sharded;
}

bool Loses(const LostResult& lost, size_t rank) {
  return std::ranges::count(lost.losers, static_cast<int32_t>(rank)) > 0;
}

std::string GatherOf(int32_t bucket) {
  return absl::StrCat("bucket ", bucket, " gather of step 2");
}

class LostResultTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  // Runs the case, whose last Resync must succeed and bring all to step 2.
  ResyncRun Run(const ShardedCase& sharded, std::vector<LostResult> lost) {
    const ResyncRun run =
        RunResyncs(sharded, {.runtime = GetParam(), .lost = std::move(lost)});
    const auto want = RunUnsharded(sharded);
    EXPECT_THAT(want, IsOk());
    EXPECT_THAT(run.results, Each(IsOk()));
    EXPECT_TRUE(run.parameters == want->parameters);
    for (const StepOutcome& last : run.last) {
      EXPECT_EQ(last.step, 2);
      EXPECT_EQ(last.updated, want->outcomes[1].updated);
      EXPECT_EQ(last.gradient_norm, want->outcomes[1].gradient_norm);
    }
    return run;
  }

  // The second step fails on the losers and on no other.
  void RunStep(const ShardedCase& sharded, const LostResult& lost) {
    const ResyncRun run = Run(sharded, {lost});
    for (size_t r = 0; r < run.attempts.size(); ++r) {
      EXPECT_EQ(run.attempts[r].front().ok(), !Loses(lost, r))
          << "rank " << r << ": " << run.attempts[r].front();
    }
  }
};

TEST_P(LostResultTest, ADecisionIsTakenFromTheOthersAndAppliedToWhatWasKept) {
  for (const bool release : {false, true}) {
    ShardedCase sharded = ThreeSteps();
    sharded.options.release_gradients = release;
    for (const char* label : {"control of step 2, sums", kControl}) {
      SCOPED_TRACE(label);
      RunStep(sharded, {.label = label, .losers = {1}});
      RunStep(sharded, {.label = label, .losers = {0, 2}});
    }
  }
}

TEST_P(LostResultTest, ParametersThatSomeRanksDidNotGetAreGatheredAgain) {
  for (const GatherMode gather : {GatherMode::kEager, GatherMode::kLazy}) {
    ShardedCase sharded = ThreeSteps();
    sharded.options.gather = gather;
    for (int32_t bucket = 0; bucket < 2; ++bucket) {
      SCOPED_TRACE(GatherOf(bucket));
      RunStep(sharded, {.label = GatherOf(bucket), .losers = {1}});
      RunStep(sharded, {.label = GatherOf(bucket), .losers = {0, 2}});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, LostResultTest,
                         ::testing::ValuesIn(testing::BothRuntimes(3)),
                         testing::RuntimeCaseName);

// A rank that fails in a Resync does not tell; the others find out at the
// deadline, so only where the clock is virtual.
class LostInResyncTest : public LostResultTest {};

TEST_P(LostInResyncTest, AnyResultOfAResyncMayBeLostAndResyncedOnceMore) {
  const ShardedCase sharded = ThreeSteps();
  for (const std::string& label :
       {std::string("agreement"), std::string("resync: standings"),
        std::string("resync: sums"), std::string("resync: least"), GatherOf(0),
        GatherOf(1), std::string(kEnd)}) {
    for (const std::vector<int32_t>& losers :
         {std::vector<int32_t>{0}, {1}, {0, 2}}) {
      SCOPED_TRACE(absl::StrCat(label, " on ", absl::StrJoin(losers, ", ")));
      const LostResult lost = {.label = label, .losers = losers};
      const ResyncRun run =
          Run(sharded, {{.label = kControl, .losers = {1}}, lost});
      // The last operation is all that its losers have missed.
      const bool others_end = label == kEnd;
      const std::string missing =
          absl::StrCat(losers.size() == 1 ? "missing rank " : "missing ranks ",
                       absl::StrJoin(losers, ", "), ";");
      for (size_t r = 0; r < run.attempts.size(); ++r) {
        const absl::Status& attempt = run.attempts[r][1];
        if (Loses(lost, r)) {
          EXPECT_THAT(attempt,
                      StatusIs(absl::StatusCode::kAborted, "cable pulled"));
        } else if (others_end) {
          EXPECT_THAT(attempt, IsOk());
        } else {
          EXPECT_THAT(attempt,
                      StatusIs(absl::StatusCode::kDeadlineExceeded, missing));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Seeds, LostInResyncTest,
    ::testing::Values(RuntimeCase{.kind = RuntimeCase::Kind::kSim, .seed = 1},
                      RuntimeCase{.kind = RuntimeCase::Kind::kSim, .seed = 2}),
    testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
