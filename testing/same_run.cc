#include "testing/same_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/statusor.h"
#include "testing/run_difference.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {

void ExpectSameRun(const ShardedCase& sharded, const ShardedRun& got,
                   const UnshardedRun& want) {
  EXPECT_THAT(CheckSameRun(sharded, got, want), IsOk());
}

void ExpectSameBits(const ShardedCase& sharded, const RuntimeCase& runtime) {
  SCOPED_TRACE(Describe(sharded));
  const absl::StatusOr<UnshardedRun> want = RunUnsharded(sharded);
  ASSERT_THAT(want, IsOk());
  ExpectSameRun(sharded, RunSharded(sharded, runtime), *want);
}

}  // namespace muonshard::testing
