#include "collectives/runtime/sim_task.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muonshard {
namespace {

std::string Quoted(const SimTasks& tasks, uint64_t id) {
  const SimTask* task = id == 0 ? nullptr : tasks[id - 1].get();
  return task == nullptr ? std::string("a task that has ended")
                         : absl::StrCat("\"", task->name, "\"");
}

std::string DescribePlace(const SimWaitQueue& queue, const SimTasks& tasks) {
  switch (queue.kind) {
    case SimWaitQueue::Kind::kMutex:
      return absl::StrCat("for mutex ", queue.id, ", held by ",
                          Quoted(tasks, queue.holder));
    case SimWaitQueue::Kind::kJoin:
      return absl::StrCat("to join ", Quoted(tasks, queue.id));
    case SimWaitQueue::Kind::kCondition:
      break;
  }
  return absl::StrCat("in condition ", queue.id);
}

}  // namespace

std::string DescribeWait(const SimTask& task, const SimTasks& tasks) {
  const std::string name = absl::StrCat(
      task.kind == TaskKind::kService ? "service \"" : "\"", task.name, "\"");
  if (task.waits_in == nullptr) return absl::StrCat(name, " can run");
  return absl::StrCat(name, " waits ", DescribePlace(*task.waits_in, tasks));
}

std::string DescribeWaits(const SimTasks& tasks) {
  std::vector<std::string> waits;
  for (const TaskKind kind : {TaskKind::kProgram, TaskKind::kService}) {
    for (const std::unique_ptr<SimTask>& task : tasks) {
      if (task != nullptr && task->kind == kind && task->waits_in != nullptr) {
        waits.push_back(DescribeWait(*task, tasks));
      }
    }
  }
  return absl::StrJoin(waits, "; ");
}

}  // namespace muonshard
