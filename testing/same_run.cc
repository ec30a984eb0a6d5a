#include "testing/same_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {

void ExpectSameRun(const ShardedCase& sharded, const ShardedRun& got,
                   const UnshardedRun& want) {
  ASSERT_EQ(got.parameters.size(), want.parameters.size());
  for (size_t r = 0; r < got.parameters.size(); ++r) {
    SCOPED_TRACE(absl::StrCat("rank ", r));
    for (size_t p = 0; p < sharded.specs.size(); ++p) {
      EXPECT_TRUE(got.parameters[r][p] == want.parameters[r][p])
          << "parameter " << sharded.specs[p].name;
    }
    EXPECT_TRUE(got.scalers[r] == want.scaler);
    ASSERT_EQ(got.outcomes[r].size(), want.outcomes.size());
    for (size_t s = 0; s < want.outcomes.size(); ++s) {
      SCOPED_TRACE(absl::StrCat("step ", s + 1));
      const StepOutcome& a = got.outcomes[r][s];
      const StepOutcome& b = want.outcomes[s];
      EXPECT_EQ(got.step_results[r][s].code(), want.step_results[s].code())
          << got.step_results[r][s] << " against " << want.step_results[s];
      EXPECT_EQ(a.updated, b.updated);
      EXPECT_EQ(a.gradient_norm, b.gradient_norm);
      EXPECT_EQ(a.clip_factor, b.clip_factor);
      EXPECT_EQ(a.non_finite_count, b.non_finite_count);
    }
  }
}

void ExpectSameBits(const ShardedCase& sharded, const RuntimeCase& runtime) {
  SCOPED_TRACE(Describe(sharded));
  const absl::StatusOr<UnshardedRun> want = RunUnsharded(sharded);
  ASSERT_THAT(want, IsOk());
  const ShardedRun got = RunSharded(sharded, runtime);
  ASSERT_THAT(got.results, ::testing::Each(IsOk()));
  ExpectSameRun(sharded, got, *want);
}

}  // namespace muonshard::testing
