// A runtime that runs one task at a time and chooses which, from a seed.
//
// Tasks are fibers of the thread that called `Run`. The clock is virtual: it
// moves only when no task can run, to the next deadline. Every call that
// blocks, wakes, starts or reads the clock is a choice point. The same seed and
// the same program give the same choices, and so the same trace, in every
// process.
//
// Threads      One thread. Nothing inside `Run` may block on anything else: a
//              fiber that waits on a std::mutex held by another never wakes,
//              and one that only reads the clock never sees it move.
// Cost         About a tenth of a microsecond a choice; stacks are mapped, not
//              resident.
// Errors       When no task can run and no deadline is due, every wait of a
//              program ends as if its deadline had passed, and `Run` returns
//              kFailedPrecondition with a report that names each wait. If the
//              program cannot go on even so, what is left of it is dropped
//              where it stands. The same status reports a task that was not
//              joined or did not end, and a mutex unlocked by another task.

#ifndef COLLECTIVES_RUNTIME_SIM_RUNTIME_H_
#define COLLECTIVES_RUNTIME_SIM_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/sim_scheduler.h"

namespace muonshard {

struct SimOptions {
  uint64_t seed = 0;
  // Of each fiber. Deep recursion and OpenBLAS need room.
  size_t stack_bytes = size_t{1} << 20;
  // Who runs next; outlives the runtime. Null: a random walk from the seed.
  SimScheduler* scheduler = nullptr;
  // Programs that make more choices than this, over all runs, go round in
  // circles: `Run` drops what is left and fails.
  uint64_t choice_count_max = std::numeric_limits<uint64_t>::max();
};

class SimRuntime : public Runtime {
 public:
  static std::unique_ptr<SimRuntime> Create(const SimOptions& options);

  // Runs `main` as the first program and returns when every task has ended.
  // Objects of this runtime are made and destroyed inside `main`.
  virtual absl::Status Run(absl::AnyInvocable<void()> main) = 0;

  // A hash of all choices made so far, with the virtual time of each.
  virtual uint64_t trace_hash() const = 0;

  // How many choices that were.
  virtual uint64_t choice_count() const = 0;
};

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_SIM_RUNTIME_H_
