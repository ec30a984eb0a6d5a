#include "collectives/runtime/rank_tasks.h"

#include <cstddef>
#include <memory>

#include "absl/strings/str_cat.h"

namespace muonshard {

std::vector<absl::Status> RunRanks(
    Runtime& runtime, int32_t size,
    const std::function<absl::Status(Rank)>& program) {
  std::vector<absl::Status> results(static_cast<size_t>(size));
  std::vector<std::unique_ptr<Task>> tasks;
  tasks.reserve(results.size());
  for (int32_t r = 0; r < size; ++r) {
    absl::Status& result = results[static_cast<size_t>(r)];
    tasks.push_back(
        runtime.Start(absl::StrCat("rank ", r), TaskKind::kProgram,
                      [&result, &program, r] { result = program(Rank{r}); }));
  }
  for (const std::unique_ptr<Task>& task : tasks) task->Join();
  return results;
}

}  // namespace muonshard
