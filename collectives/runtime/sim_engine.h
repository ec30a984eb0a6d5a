// The heart of the simulated runtime: its tasks, its clock, and the points at
// which one task gives way to another.
//
// Threads      All methods but `Run` and the reading ones are called by the
//              running task.
// Errors       What a program does wrong (a deadlock, a mutex given back by a
//              task that does not have it) is noted, is got over as well as can
//              be, and makes `Run` fail.

#ifndef COLLECTIVES_RUNTIME_SIM_ENGINE_H_
#define COLLECTIVES_RUNTIME_SIM_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/sim_fiber.h"
#include "collectives/runtime/sim_scheduler.h"
#include "collectives/runtime/sim_task.h"

namespace muonshard {

class SimEngine {
 public:
  // `scheduler` outlives the engine.
  SimEngine(SimScheduler& scheduler, size_t stack_bytes,
            uint64_t choice_count_max);

  absl::Status Run(absl::AnyInvocable<void()> main);

  absl::Time now() const { return now_; }
  uint64_t trace_hash() const { return trace_hash_; }
  uint64_t choice_count() const { return choice_count_; }
  // A deadlock was broken: a mutex may have two holders.
  bool deadlocked() const { return deadlock_count_ > 0; }

  SimTask& current() { return *current_; }
  SimTask& task(uint64_t id) { return *tasks_[id - 1]; }
  uint64_t NewObjectId() { return ++object_count_; }

  // Adds a task that can run.
  SimTask& AddTask(absl::string_view name, TaskKind kind,
                   absl::AnyInvocable<void()> function);
  // Forgets a task that has ended.
  void ForgetTask(uint64_t id);

  // Lets the scheduler choose who goes on; the caller may.
  void ChoicePoint(SimCall call);

  // Puts the caller to sleep in `queue`. Returns true when it was woken, and
  // false when the deadline passed or a deadlock was broken.
  bool Block(SimCall call, SimWaitQueue& queue, absl::Time deadline);

  // Makes one task of `queue`, chosen by the scheduler, or all able to run.
  void WakeOne(SimWaitQueue& queue);
  void WakeAll(SimWaitQueue& queue);

  void NoteError(std::string error);

 private:
  // The first function on each stack.
  static void RunTask(void* task);
  [[noreturn]] void EndCurrentTask();
  void SwitchTo(SimTask* next);
  void FreeEndedFiber();
  void AbandonTasks();

  // Returns null when nothing will ever run again.
  SimTask* ChooseNext(SimCall call);
  size_t ChooseIndex(const SimChoice& choice);
  void Trace(SimCall call, uint64_t chosen);

  void AddRunnable(uint64_t id);
  void RemoveRunnable(uint64_t id);
  void EndWait(SimTask& task, bool expired);

  // Each returns false if it made no task able to run.
  bool MakeRunnable();
  bool AdvanceClock();
  bool BreakDeadlock();
  template <typename Predicate>
  bool ExpireWaits(Predicate predicate, size_t count_max);

  SimScheduler& scheduler_;
  const uint64_t choice_count_max_;
  FiberStackPool stacks_;
  std::optional<Fiber> root_;  // Of the caller of `Run`.

  SimTasks tasks_;
  std::vector<uint64_t> runnable_;  // Ascending.
  std::set<std::pair<absl::Time, uint64_t>> timers_;
  SimTask* current_ = nullptr;
  SimTask* ended_ = nullptr;  // Ended on a stack that could not yet be freed.
  int64_t live_program_count_ = 0;

  absl::Time now_ = absl::UnixEpoch();
  uint64_t trace_hash_ = 0;
  uint64_t choice_count_ = 0;
  uint64_t object_count_ = 0;
  int64_t deadlock_count_ = 0;
  bool gave_up_ = false;  // On an end within `choice_count_max_`.
  std::vector<std::string> errors_;
};

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_SIM_ENGINE_H_
