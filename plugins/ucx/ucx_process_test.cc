// Ranks that are processes: what only they can show.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/plugin.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/store.h"
#include "testing/process_ranks.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// Sums what no cache holds, and what fits into one message.
absl::Status SumAll(Process& process) {
  const int32_t size = process.world.size();
  for (const size_t count : {size_t{1}, size_t{3000}, size_t{1} << 20}) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>((i % 1000) * 10 + ToInt(process.rank));
    }
    if (absl::Status s = Finish(
            process, process.world.AllReduce(ConstBuffer::Of<float>(values),
                                             MutableBuffer::Of<float>(values),
                                             Reduction::Sum()));
        !s.ok()) {
      return s;
    }
    for (size_t i = 0; i < count; ++i) {
      const auto want =
          static_cast<float>((i % 1000) * 10 * size + size * (size - 1) / 2);
      if (values[i] != want) {
        return absl::DataLossError(
            absl::StrCat("element ", i, ": want ", want, ", got ", values[i]));
      }
    }
  }
  return absl::OkStatus();
}

TEST(UcxProcessTest, ProcessesReduceAsOne) {
  for (const size_t size : {1, 2, 3, 4, 8}) {
    EXPECT_THAT(RunInProcesses(size, SumAll), Each("OK")) << size;
  }
}

TEST(UcxProcessTest, ProcessesSplitAndTalkInPairs) {
  const auto said = RunInProcesses(4, [](Process& process) -> absl::Status {
    auto half = process.world.Split(ToInt(process.rank) % 2, 0, "half",
                                    process.runtime.Now() + kPatience);
    if (!half.ok()) return half.status();
    float value = static_cast<float>(ToInt(process.rank));
    const auto buffer = std::span(&value, 1);
    if ((*half)->rank() == Rank{0}) {
      return Finish(process,
                    (*half)->Send(ConstBuffer::Of<float>(buffer), Rank{1}));
    }
    if (absl::Status s = Finish(
            process, (*half)->Recv(MutableBuffer::Of<float>(buffer), Rank{0}));
        !s.ok()) {
      return s;
    }
    return value == static_cast<float>(ToInt(process.rank) - 2)
               ? absl::OkStatus()
               : absl::DataLossError(absl::StrCat("got ", value));
  });
  EXPECT_THAT(said, Each("OK"));
}

// Nobody reaps the killed process before the others have told: it is a zombie
// all the time.
TEST(UcxProcessTest, AKilledProcessIsNamedOnEveryOtherRank) {
  const auto said = RunInProcesses(4, [](Process& process) -> absl::Status {
    if (absl::Status s = SumAll(process); !s.ok()) return s;
    if (process.rank == Rank{2}) raise(SIGKILL);
    const absl::Status ended = Finish(process, process.world.Barrier());
    if (ended.ok()) return absl::InternalError("nobody noticed");
    // It stays so, and says so.
    const absl::Status again = Finish(process, process.world.Barrier());
    return again.code() == ended.code() ? ended : again;
  });
  for (const size_t rank : {0, 1, 3}) {
    EXPECT_THAT(said[rank],
                AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("lost rank 2")));
  }
  EXPECT_THAT(said[2], HasSubstr("signal 9"));
}

TEST(UcxProcessTest, SurvivorsOfAKilledProcessMakeANewGroup) {
  const auto said = RunInProcesses(4, [](Process& process) -> absl::Status {
    if (process.rank == Rank{0}) raise(SIGKILL);
    const absl::Status ended = Finish(process, process.world.Barrier());
    if (ended.ok()) return absl::InternalError("nobody noticed");
    auto survivors =
        process.plugin.NewGroup({.rank = Rank{ToInt(process.rank) - 1},
                                 .size = 3,
                                 .name = "survivors",
                                 .deadline = process.runtime.Now() + kPatience,
                                 .store = &process.store});
    if (!survivors.ok()) return survivors.status();
    Process next = {Rank{ToInt(process.rank) - 1}, process.plugin,
                    process.store, process.runtime, **survivors};
    return SumAll(next);
  });
  EXPECT_THAT(said[0], HasSubstr("signal 9"));
  for (const size_t rank : {1, 2, 3}) EXPECT_EQ(said[rank], "OK");
}

TEST(UcxProcessTest, AStoppedProcessIsNamedAtTheDeadline) {
  const auto said = RunInProcesses(3, [](Process& process) -> absl::Status {
    if (absl::Status s = SumAll(process); !s.ok()) return s;
    if (process.rank == Rank{1}) {
      // Until rank 0, the parent's first child, lets it go on.
      if (absl::Status s = process.store.Put("pid", absl::StrCat(getpid()));
          !s.ok()) {
        return s;
      }
      raise(SIGSTOP);
      return process.world.Health();
    }
    const absl::Status ended = Finish(
        process, process.world.Barrier({.label = "stopped",
                                        .deadline = process.runtime.Now() +
                                                    absl::Milliseconds(300)}));
    if (process.rank == Rank{0}) {
      const auto pid =
          process.store.Get("pid", process.runtime.Now() + kPatience);
      if (!pid.ok()) return pid.status();
      kill(static_cast<pid_t>(std::stol(*pid)), SIGCONT);
    }
    return ended;
  });
  for (const size_t rank : {0, 2}) {
    EXPECT_THAT(said[rank], AllOf(HasSubstr("DEADLINE_EXCEEDED"),
                                  HasSubstr("missing rank 1")));
  }
}

TEST(UcxProcessTest, AWorldThatNeverFillsNamesWhoIsMissing) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const std::unique_ptr<Store> store = NewInProcessStore(*runtime);
  auto plugin = Plugin::Open(PluginSearchFromEnvironment("ucx", ""), *runtime);
  ASSERT_THAT(plugin, IsOk());
  EXPECT_THAT(
      (*plugin)->NewGroup({.rank = Rank{1},
                           .size = 4,
                           .deadline = runtime->Now() + absl::Milliseconds(20),
                           .store = store.get()}),
      StatusIs(absl::StatusCode::kDeadlineExceeded, "missing ranks 0, 2, 3"));
}

}  // namespace
}  // namespace muonshard::testing
