// Holds a sharded run against the unsharded one, bit for bit.

#ifndef TESTING_SAME_RUN_H_
#define TESTING_SAME_RUN_H_

#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"

namespace muonshard::testing {

// Expects what run_difference.h checks.
void ExpectSameRun(const ShardedCase& sharded, const ShardedRun& got,
                   const UnshardedRun& want);

// Runs the case both ways.
void ExpectSameBits(const ShardedCase& sharded, const RuntimeCase& runtime);

}  // namespace muonshard::testing

#endif  // TESTING_SAME_RUN_H_
