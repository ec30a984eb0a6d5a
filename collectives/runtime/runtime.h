// Everything that blocks, runs concurrently or reads a clock.
//
// A Runtime is an object that is passed in, never a global. There are two:
// threads_runtime.h (threads of the operating system, the real clock) and
// sim_runtime.h (fibers of one thread, a virtual clock, a seeded choice of who
// runs next at every call). Code above this folder names neither.
//
// In this file
//   task      a strand of execution: a thread or a fiber
//   program   the task that runs one rank's code
//   deadline  an instant on this runtime's clock; absl::InfiniteFuture() never
//             passes
//
// Ordering     Unlock of a Mutex happens before the next Lock of it. A wait on
//              a Condition may end without a cause; callers loop.
// Threads      Every method may be called from any task, with the exceptions
//              named at each. On the simulated runtime every method must be
//              called from inside `Run`.
// Memory       A Runtime outlives every object made by it. A Task is joined
//              before it is destroyed.
// Errors       Waits return false when the deadline passed first. Nothing here
//              aborts or throws.

#ifndef COLLECTIVES_RUNTIME_RUNTIME_H_
#define COLLECTIVES_RUNTIME_RUNTIME_H_

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muonshard {

// Mutual exclusion between tasks. Not recursive.
class Mutex {
 public:
  virtual ~Mutex() = default;
  virtual void Lock() = 0;
  virtual void Unlock() = 0;
};

// Holds `mutex` for its own life.
class MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// A place to wait for a change of state that one Mutex guards. Always used
// with the same Mutex.
class Condition {
 public:
  virtual ~Condition() = default;

  // Releases `mutex`, waits for a notification or for `deadline`, takes the
  // mutex again. Returns false if the deadline passed first.
  virtual bool Wait(Mutex& mutex, absl::Time deadline) = 0;
  virtual void NotifyOne() = 0;
  virtual void NotifyAll() = 0;
};

class Task {
 public:
  virtual ~Task() = default;

  // Waits until the task's function has returned. Called once, by one task.
  virtual void Join() = 0;
};

// How a task takes part in the finding of deadlocks.
enum class TaskKind : uint8_t {
  kProgram,  // Runs a caller's code. Blocked for ever is a deadlock.
  kService,  // Waits for work for ever, and that is no deadlock.
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  // The clock. It never goes back.
  virtual absl::Time Now() = 0;

  virtual std::unique_ptr<Mutex> NewMutex() = 0;
  virtual std::unique_ptr<Condition> NewCondition() = 0;

  // Starts `function` on a task of its own. `name` appears in reports. The
  // process ends if the system has no thread or no stack left to give.
  virtual std::unique_ptr<Task> Start(absl::string_view name, TaskKind kind,
                                      absl::AnyInvocable<void()> function) = 0;

  // Lets other tasks run. On the simulated runtime a choice point.
  virtual void Yield() = 0;

  // Identifies the calling task for its life; never 0. Threads that the
  // runtime did not start get one on their first call.
  virtual uint64_t CurrentTaskId() = 0;

  // Writes one line for a person. `severity` as in LogSeverity.
  virtual void Log(int32_t severity, absl::string_view text) = 0;
};

// Severities of `Runtime::Log`, ascending.
enum LogSeverity : int32_t { kLogInfo = 0, kLogWarning = 1, kLogError = 2 };

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_RUNTIME_H_
