#include "collectives/tcp/real_time.h"

#include <sys/types.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace muonshard {

absl::Status CheckRealTime(Runtime& runtime, absl::string_view who) {
  pid_t thread = 0;
  const std::unique_ptr<Task> task = runtime.Start(
      "real_time", TaskKind::kService, [&] { thread = gettid(); });
  task->Join();
  if (thread != gettid()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      who, ": waits in real time, and cannot run on the simulated runtime"));
}

}  // namespace muonshard
