// A program that is run again and again under other schedules.

#ifndef TESTING_EXPLORATION_EXPERIMENT_H_
#define TESTING_EXPLORATION_EXPERIMENT_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "collectives/runtime/sim_scheduler.h"

namespace muonshard::testing {

struct ExploredRun {
  // OK if all that the experiment promises held, else the first that did not.
  absl::Status result;
  // Equal for equal seeds and schedules.
  uint64_t trace_hash = 0;
  uint64_t choice_count = 0;
};

// What a run may cost and who chooses in it.
struct ExploredSchedule {
  SimScheduler& scheduler;
  uint64_t choice_count_max = std::numeric_limits<uint64_t>::max();
};

class Experiment {
 public:
  virtual ~Experiment() = default;

  // Runs once, on the simulated runtime. A function of the schedule and of
  // `seed`, which chooses all else that varies from run to run.
  virtual ExploredRun Run(const ExploredSchedule& schedule,
                          uint64_t seed) const = 0;

  // Whether the seed chooses what is run, so that the length of one run says
  // little about another's. The default says no.
  virtual bool varies() const { return false; }
};

}  // namespace muonshard::testing

#endif  // TESTING_EXPLORATION_EXPERIMENT_H_
