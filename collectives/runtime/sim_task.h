// What the simulated runtime knows of a task, and of the places tasks wait in.

#ifndef COLLECTIVES_RUNTIME_SIM_TASK_H_
#define COLLECTIVES_RUNTIME_SIM_TASK_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/sim_fiber.h"

namespace muonshard {

class SimEngine;

// The tasks that wait in one mutex, in one condition, or for the end of one
// task.
struct SimWaitQueue {
  enum class Kind : uint8_t { kMutex, kCondition, kJoin };

  Kind kind;
  uint64_t id;          // Of the mutex, the condition or the joined task.
  uint64_t holder = 0;  // The task that has the mutex; 0: nobody.
  std::vector<uint64_t> waiting = {};  // In order of arrival.
};

struct SimTask {
  SimEngine* engine;
  uint64_t id;  // From 1, in the order of the starts.
  std::string name;
  TaskKind kind;
  absl::AnyInvocable<void()> function;
  SimWaitQueue joiners;
  std::unique_ptr<Fiber> fiber = nullptr;

  bool ended = false;
  // Where the task waits, and until when; null: it can run.
  SimWaitQueue* waits_in = nullptr;
  absl::Time deadline = absl::InfiniteFuture();
  // The last wait ended without a cause.
  bool expired = false;
};

// Tasks by id less 1; those that have ended and are joined are null.
using SimTasks = std::vector<std::unique_ptr<SimTask>>;

// "\"rank 0\" waits for mutex 2, held by \"rank 1\"", "\"rank 0\" can run".
std::string DescribeWait(const SimTask& task, const SimTasks& tasks);

// The waits of all tasks, programs first.
std::string DescribeWaits(const SimTasks& tasks);

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_SIM_TASK_H_
