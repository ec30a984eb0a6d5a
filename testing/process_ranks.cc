#include "testing/process_ranks.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "collectives/runtime/threads_runtime.h"
#include "testing/exploration/child_process.h"

namespace muonshard::testing {
namespace {

absl::Status RunRank(size_t rank, size_t size, const std::string& folder,
                     const std::function<absl::Status(Process&)>& program) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  auto store = NewFileStore(*runtime, folder);
  if (!store.ok()) return store.status();
  auto plugin = Plugin::Open(PluginSearchFromEnvironment("ucx", ""), *runtime);
  if (!plugin.ok()) return plugin.status();
  auto world = (*plugin)->NewGroup({.rank = Rank{static_cast<int32_t>(rank)},
                                    .size = static_cast<int32_t>(size),
                                    .deadline = runtime->Now() + kPatience,
                                    .store = store->get()});
  if (!world.ok()) return world.status();
  Process process = {Rank{static_cast<int32_t>(rank)}, **plugin, **store,
                     *runtime, **world};
  return program(process);
}

}  // namespace

std::vector<std::string> RunInProcesses(
    size_t size, const std::function<absl::Status(Process&)>& program) {
  std::string folder = absl::StrCat(::testing::TempDir(), "/ucx.XXXXXX");
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  std::vector<std::string> said(size);
  const std::vector<absl::Status> ended = RunInChildren(
      size,
      [&](size_t rank, const Tell& tell) {
        tell(RunRank(rank, size, folder, program).ToString());
      },
      [&](size_t rank, const std::string& line) { said[rank] += line; },
      2 * kPatience);
  for (size_t rank = 0; rank < size; ++rank) {
    if (!ended[rank].ok()) said[rank] = ended[rank].ToString();
  }
  return said;
}

absl::Status Finish(Process& process, const absl::StatusOr<Work>& work) {
  if (!work.ok()) return work.status();
  return work->Wait(process.runtime.Now() + kPatience);
}

}  // namespace muonshard::testing
