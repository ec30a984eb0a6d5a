// As many tasks as a system of the largest size has ranks and services.
//
// In a file of its own, because no sanitizer has room for them.

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/sim_runtime.h"

namespace muonshard {
namespace {

using Tasks = std::vector<std::unique_ptr<Task>>;

TEST(SimRuntime, ThirtyThousandTasksLiveAtOnce) {
  constexpr int kTaskCount = 30'000;
  const std::unique_ptr<SimRuntime> runtime =
      SimRuntime::Create({.seed = 1, .stack_bytes = size_t{64} << 10});
  int arrived = 0;
  const absl::Status status = runtime->Run([&] {
    const std::unique_ptr<Mutex> mutex = runtime->NewMutex();
    const std::unique_ptr<Condition> condition = runtime->NewCondition();
    Tasks tasks;
    for (int i = 0; i < kTaskCount; ++i) {
      tasks.push_back(runtime->Start("task", TaskKind::kProgram, [&] {
        MutexLock lock(*mutex);
        ++arrived;
        // The last to come lets all go.
        if (arrived == kTaskCount) condition->NotifyAll();
        while (arrived < kTaskCount) {
          condition->Wait(*mutex, absl::InfiniteFuture());
        }
      }));
    }
    for (const auto& task : tasks) task->Join();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(arrived, kTaskCount);
}

}  // namespace
}  // namespace muonshard
