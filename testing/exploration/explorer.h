// Runs an experiment under many schedules, keeps the traces of runs that
// failed, and makes these shorter.
//
// Threads    The calling process has one thread. Runs happen in child
//            processes, so that one that crashes is a failure like any other,
//            and so is one that makes no more choices: it is killed.

#ifndef TESTING_EXPLORATION_EXPLORER_H_
#define TESTING_EXPLORATION_EXPLORER_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "testing/exploration/experiment.h"
#include "testing/exploration/recorded_run.h"

namespace muonshard::testing {

// Of real time, far more than a run takes where the sanitizers look at it.
inline constexpr absl::Duration kRunLimit = absl::Minutes(1);

struct ExploreOptions {
  uint64_t first_seed = 1;
  int64_t seed_count = 0;  // >= 1.
  int32_t processes = 1;   // >= 1.
  // The search ends soon after so many failures, >= 1, and these are kept.
  int64_t failure_count_max = 1;
  // A run that tells nothing for so long fails with kDeadlineExceeded; > 0.
  absl::Duration run_limit = kRunLimit;
};

struct ExploreSummary {
  int64_t run_count = 0;
  int64_t failure_count = 0;
  int64_t distinct_count = 0;  // Of the schedules of these runs.
  uint64_t choice_count_min = std::numeric_limits<uint64_t>::max();
  uint64_t choice_count_max = 0;
  // Of the traces of all runs, whatever process ran which.
  uint64_t hash = 0;
  std::vector<RecordedRun> failures;  // The first, ascending by seed.
};

// kInvalidArgument for options out of range, kUnavailable if the system gives
// no process. If the experiment does not hold under the default schedule, from
// which the length of a run is learnt, that is the summary's one run, with seed
// 0. Where the experiment varies, a seed whose schedule depends on the length
// learns its own, from a run under the default schedule before its own one; if
// that one does not hold, it is the seed's run.
absl::StatusOr<ExploreSummary> Explore(const Experiment& experiment,
                                       const ExploreOptions& options);

// Runs `experiment` with the seed and the choices of `run`, as often as wanted:
// the trace, or else the scheduler of the seed and the length. The limit counts
// from the last deviation.
RecordedRun Replay(const Experiment& experiment, const RecordedRun& run,
                   absl::Duration run_limit = kRunLimit);

// A run that fails with the status code of `failed` and whose trace is shorter:
// no single deviation can be left out of it, if `run_count_max` runs suffice
// to see that. Deviations are left out in halves, quarters, ... (Zeller and
// Hildebrandt, 2002). A run without a trace is returned as it is. Where runs
// have to be killed, only the first few are waited for.
RecordedRun Shrink(const Experiment& experiment, const RecordedRun& failed,
                   int64_t run_count_max, absl::Duration run_limit = kRunLimit);

}  // namespace muonshard::testing

#endif  // TESTING_EXPLORATION_EXPLORER_H_
