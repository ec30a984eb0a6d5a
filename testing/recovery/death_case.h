// A rank that dies at any operation of a run, from the making of its groups to
// the last gather: the others are told which rank it was, within the deadline,
// and the run goes on from a copy as if nothing had been.

#ifndef TESTING_RECOVERY_DEATH_CASE_H_
#define TESTING_RECOVERY_DEATH_CASE_H_

#include <cstdint>

namespace muonshard::testing {

// Of a run with hierarchy, overlap, scaler and accumulation at once.
inline constexpr int32_t kDeathRanks = 8;

// Lets `rank` die before and after every `stride`-th operation of the run, one
// run for each death, and expects that each is told and recovered from, and
// that nothing is left in the plugin. Prints how many runs there were.
void ExpectDeathsAreRecoveredFrom(int32_t rank, int64_t stride);

}  // namespace muonshard::testing

#endif  // TESTING_RECOVERY_DEATH_CASE_H_
