// Which scheduler a seed stands for.

#ifndef TESTING_EXPLORATION_SEEDED_SCHEDULE_H_
#define TESTING_EXPLORATION_SEEDED_SCHEDULE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "collectives/runtime/sim_scheduler.h"

namespace muonshard::testing {

// Kinds take turns, so that any run of seeds has a share of each: no kind finds
// every fault soon.
inline constexpr uint64_t kScheduleKinds = 5;

// "random", "pct-2", "pct-3", "pct-4", "starving".
std::string ScheduleKindName(uint64_t seed);

// Whether what a seed does depends on how long the run is: a pct schedule
// spreads its falls over all of it.
bool DependsOnLength(uint64_t seed);

// `choice_count`: about how many choices a run of this seed makes. Falls behind
// the end of a shorter run are lost, and a longer one has all in its first
// part.
std::unique_ptr<SimScheduler> NewSeededScheduler(uint64_t seed,
                                                 uint64_t choice_count);

}  // namespace muonshard::testing

#endif  // TESTING_EXPLORATION_SEEDED_SCHEDULE_H_
