// Who runs next on the simulated runtime.
//
// A scheduler sees nothing but ids, so that a seeded walk, a replay of recorded
// choices and a search over all of them are the same to the engine.
//
// Ordering     `Choose` is a function of the scheduler's own state and of the
//              choices it was asked for so far, and of nothing else.
// Threads      Called by one thread.

#ifndef COLLECTIVES_RUNTIME_SIM_SCHEDULER_H_
#define COLLECTIVES_RUNTIME_SIM_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "collectives/runtime/split_mix64.h"

namespace muonshard {

// The call of the runtime at which a choice is due. The values enter the trace
// hash.
enum class SimCall : uint8_t {
  kLock = 0,
  kUnlock = 1,
  kWait = 2,
  kNotify = 3,
  kStart = 4,
  kYield = 5,
  kJoin = 6,
  kNow = 7,
  kExit = 8,  // A task's function has returned.
  kWake = 9,  // Which one of several waiting tasks to wake, not to run.
};

struct SimChoice {
  SimCall call;
  // Ids of the tasks to choose from, at least two: ascending, or for kWake in
  // the order in which they began to wait.
  std::span<const uint64_t> candidates;
  // The index among them of the task that made the call, or how many they are
  // if it cannot go on.
  size_t caller;
};

class SimScheduler {
 public:
  virtual ~SimScheduler() = default;

  // Returns an index into `choice.candidates`.
  virtual size_t Choose(const SimChoice& choice) = 0;
};

// What a scheduler without a mind of its own does: the caller goes on if it
// can; after a yield the task that follows it in the order of ids, around the
// end; else the first.
size_t DefaultChoice(const SimChoice& choice);

// A random walk. Some seeds switch at almost every call and some seldom,
// because there are faults that only short or only long stretches show.
std::unique_ptr<SimScheduler> NewRandomScheduler(uint64_t seed);

// Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): the task
// of the highest priority runs. Priorities are drawn, and at `depth` - 1
// choices, drawn from the first `choice_count`, the running task falls to one
// of as many levels below all that were drawn. A fault that needs `depth`
// ordered events among n tasks is found with probability
// 1 / (n * choice_count ^ (depth - 1)) or more, in a program that does not
// poll: one that yields or looks at the clock falls below all others, and the
// schedule is then fairer than the bound asks for. Choices of whom to run
// among two or more tasks count.
struct PctOptions {
  uint64_t seed = 0;
  int32_t depth = 3;
  uint64_t choice_count = 1000;
};
std::unique_ptr<SimScheduler> NewPctScheduler(const PctOptions& options);

// An adversary of whoever forgot to wait: some tasks, drawn by seed, run only
// when no other can, for the whole run or for stretches of it. The work that
// they carry comes as late as what waits for it allows. Others walk at random.
std::unique_ptr<SimScheduler> NewStarvingScheduler(uint64_t seed);

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_SIM_SCHEDULER_H_
