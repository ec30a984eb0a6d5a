// What ranks that are processes owe a long run: nothing grows, other jobs do
// not matter, and whoever dies or stops is named, whenever it does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/runtime/split_mix64.h"
#include "collectives/store.h"
#include "testing/process_ranks.h"

namespace muonshard::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

size_t EntriesOf(const std::string& folder) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    (void)entry;
    ++count;
  }
  return count;
}

// Segments of shared memory whose makers are dead. Those that are mapped here,
// and all of ours, have no name that outlives their processes.
std::vector<std::string> OrphanedSegments() {
  std::vector<std::string> orphans;
  std::ifstream table("/proc/sysvipc/shm");
  std::string line;
  std::getline(table, line);  // Names of the columns.
  while (std::getline(table, line)) {
    std::istringstream columns(line);
    int64_t key = 0;
    int64_t id = 0;
    int64_t mode = 0;
    int64_t bytes = 0;
    pid_t maker = 0;
    columns >> key >> id >> mode >> bytes >> maker;
    if (kill(maker, 0) != 0 && errno == ESRCH) orphans.push_back(line);
  }
  return orphans;
}

CallOptions Within(Process& process, absl::Duration timeout) {
  return {.label = "step", .deadline = process.runtime.Now() + timeout};
}

// The buffers of a step, and its calls: small ones or of more than any chunk.
struct StepCalls {
  StepCalls(Process& of, size_t count)
      : process(of),
        size(static_cast<size_t>(of.world.size())),
        in(count * size, 1.0f),
        part(count),
        counts(size, static_cast<int64_t>(count)) {}

  absl::StatusOr<Work> Scatter(absl::Duration timeout) {
    return process.world.ReduceScatterV(
        ConstBuffer::Of<float>(in), MutableBuffer::Of<float>(part), counts,
        Reduction::Sum(), Within(process, timeout));
  }
  absl::StatusOr<Work> Gather(absl::Duration timeout) {
    return process.world.AllGatherV(ConstBuffer::Of<float>(part),
                                    MutableBuffer::Of<float>(in), counts,
                                    Within(process, timeout));
  }

  Process& process;
  const size_t size;
  std::vector<float> in;
  std::vector<float> part;
  const std::vector<int64_t> counts;
};

absl::Status Step(Process& process, size_t count, absl::Duration timeout) {
  StepCalls step(process, count);
  if (absl::Status s = Finish(process, step.Scatter(timeout)); !s.ok()) {
    return s;
  }
  if (absl::Status s = Finish(process, step.Gather(timeout)); !s.ok()) return s;
  for (const float value : step.in) {
    if (value != static_cast<float>(step.size)) {
      return absl::DataLossError(
          absl::StrCat("want ", step.size, ", got ", value));
    }
  }
  return absl::OkStatus();
}

TEST(UcxEnduranceTest, TenThousandStepsLeaveNeitherMemoryNorDescriptors) {
  for (const size_t size : {2, 4}) {
    const auto said = RunInProcesses(size, [](Process& process) {
      constexpr int kWarm = 500;
      constexpr int kSteps = 10'000;
      size_t descriptors = 0;
      size_t bytes = 0;
      for (int step = 0; step < kWarm + kSteps; ++step) {
        if (step == kWarm) {
          descriptors = EntriesOf("/proc/self/fd");
          bytes = mallinfo2().uordblks;
        }
        if (absl::Status s = Step(process, 64, kPatience); !s.ok()) return s;
      }
      // What one leaked pointer a step would be.
      constexpr size_t kBytesMax = kSteps * sizeof(void*);
      const size_t grown = mallinfo2().uordblks;
      if (grown > bytes + kBytesMax) {
        return absl::ResourceExhaustedError(
            absl::StrCat(grown, " bytes in use, before ", bytes));
      }
      const size_t open = EntriesOf("/proc/self/fd");
      return open == descriptors
                 ? absl::OkStatus()
                 : absl::ResourceExhaustedError(absl::StrCat(
                       open, " descriptors, before ", descriptors));
    });
    EXPECT_THAT(said, Each("OK")) << size;
  }
}

TEST(UcxEnduranceTest, GroupsThatComeAndGoLeaveNoDescriptors) {
  const auto said = RunInProcesses(2, [](Process& process) -> absl::Status {
    size_t descriptors = 0;
    for (int round = 0; round < 60; ++round) {
      auto group = process.world.Split(0, 0, absl::StrCat("group", round),
                                       process.runtime.Now() + kPatience);
      if (!group.ok()) return group.status();
      auto memory =
          (*group)->NewMemory(1 << 16, process.runtime.Now() + kPatience);
      if (!memory.ok()) return memory.status();
      Process inner = {process.rank, process.plugin, process.store,
                       process.runtime, **group};
      if (absl::Status s = Step(inner, 64, kPatience); !s.ok()) return s;
      memory->reset();
      group->reset();
      // Groups that were left still see off what they sent, a few at a time.
      if (round == 20) descriptors = EntriesOf("/proc/self/fd");
    }
    constexpr size_t kSeeingOff = 32;
    const size_t open = EntriesOf("/proc/self/fd");
    return open <= descriptors + kSeeingOff
               ? absl::OkStatus()
               : absl::ResourceExhaustedError(
                     absl::StrCat(open, " descriptors, before ", descriptors));
  });
  EXPECT_THAT(said, Each("OK"));
}

TEST(UcxEnduranceTest, FourJobsAtOnceDoNotDisturbOneAnother) {
  const auto said = RunInProcesses(8, [](Process& process) -> absl::Status {
    const int32_t job = ToInt(process.rank) / 2;
    auto group =
        process.plugin.NewGroup({.rank = Rank{ToInt(process.rank) % 2},
                                 .size = 2,
                                 .name = absl::StrCat("job", job),
                                 .deadline = process.runtime.Now() + kPatience,
                                 .store = &process.store});
    if (!group.ok()) return group.status();
    Process inner = {process.rank, process.plugin, process.store,
                     process.runtime, **group};
    for (int step = 0; step < 200; ++step) {
      const auto count = static_cast<size_t>(step % 2 == 0 ? 100 : 40'000);
      if (absl::Status s = Step(inner, count, kPatience); !s.ok()) return s;
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(said, Each("OK"));
}

// When and how a rank goes.
struct Moment {
  size_t victim;
  uint64_t steps;  // Before it goes.
  // Of the next step it posts no call, the first, or the second as well, and
  // goes before that one has ended.
  uint64_t posts;
  size_t count;  // Of each step.

  static Moment Of(uint64_t seed) {
    SplitMix64 random(seed);
    return {.victim = random.Next() % 4,
            .steps = random.Next() % 40,
            .posts = random.Next() % 3,
            .count = random.Next() % 2 == 0 ? size_t{50} : size_t{60'000}};
  }
};

// Steps until somebody goes. The victim sends itself `signal`.
absl::Status StepUntil(Process& process, const Moment& moment, int signal,
                       absl::Duration timeout) {
  for (uint64_t step = 0;; ++step) {
    if (step == moment.steps &&
        ToInt(process.rank) == static_cast<int32_t>(moment.victim)) {
      StepCalls last(process, moment.count);
      absl::StatusOr<Work> scatter = absl::CancelledError();
      absl::StatusOr<Work> gather = absl::CancelledError();
      if (moment.posts > 0) scatter = last.Scatter(timeout);
      if (moment.posts > 1) {
        if (absl::Status s = Finish(process, scatter); !s.ok()) return s;
        gather = last.Gather(timeout);
      }
      if (absl::Status s = process.store.Put("pid", absl::StrCat(getpid()));
          !s.ok()) {
        return s;
      }
      if (absl::Status s = process.store.Put(
              "gone", absl::StrCat(absl::ToUnixNanos(process.runtime.Now())));
          !s.ok()) {
        return s;
      }
      raise(signal);
      return process.world.Health();
    }
    if (absl::Status s = Step(process, moment.count, timeout); !s.ok()) {
      return s;
    }
  }
}

// How long after the victim went this rank knew.
absl::StatusOr<absl::Duration> SinceGone(Process& process) {
  const absl::Time known = process.runtime.Now();
  const auto text = process.store.Get("gone", known + kPatience);
  if (!text.ok()) return text.status();
  int64_t gone = 0;
  if (!absl::SimpleAtoi(*text, &gone)) return absl::InternalError(*text);
  return known - absl::FromUnixNanos(gone);
}

TEST(UcxEnduranceTest, AtAnyMomentAKilledRankIsNamedWithinASecond) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Moment moment = Moment::Of(seed);
    const auto said = RunInProcesses(4, [&](Process& process) -> absl::Status {
      const absl::Status ended = StepUntil(process, moment, SIGKILL, kPatience);
      const auto since = SinceGone(process);
      if (!since.ok()) return since.status();
      return *since <= absl::Seconds(1)
                 ? ended
                 : absl::InternalError(absl::StrCat(
                       "known after ", absl::FormatDuration(*since)));
    });
    for (size_t rank = 0; rank < said.size(); ++rank) {
      if (rank == moment.victim) {
        EXPECT_THAT(said[rank], HasSubstr("signal 9")) << seed;
      } else {
        EXPECT_THAT(said[rank],
                    AllOf(HasSubstr("UNAVAILABLE"),
                          HasSubstr(absl::StrCat("lost rank ", moment.victim))))
            << "seed " << seed << ", rank " << rank;
      }
    }
  }
  EXPECT_THAT(OrphanedSegments(), IsEmpty());
}

TEST(UcxEnduranceTest, AtAnyMomentAStoppedRankIsNamedAtTheDeadline) {
  for (uint64_t seed = 101; seed <= 150; ++seed) {
    const Moment moment = Moment::Of(seed);
    const size_t waker = moment.victim == 0 ? 1 : 0;
    const auto said = RunInProcesses(4, [&](Process& process) -> absl::Status {
      const absl::Status ended =
          StepUntil(process, moment, SIGSTOP, absl::Milliseconds(400));
      if (absl::Status s =
              process.store.Put(absl::StrCat("ended", ToInt(process.rank)), "");
          !s.ok()) {
        return s;
      }
      if (ToInt(process.rank) != static_cast<int32_t>(waker)) return ended;
      // Or the victim would go on and leave before all have ended.
      std::vector<std::string> keys = {"pid"};
      for (size_t rank = 0; rank < 4; ++rank) {
        if (rank != moment.victim) keys.push_back(absl::StrCat("ended", rank));
      }
      std::string pid;
      for (const std::string& key : keys) {
        const auto got =
            process.store.Get(key, process.runtime.Now() + kPatience);
        if (!got.ok()) return got.status();
        if (key == "pid") pid = *got;
      }
      kill(static_cast<pid_t>(std::stol(pid)), SIGCONT);
      return ended;
    });
    for (size_t rank = 0; rank < said.size(); ++rank) {
      if (rank == moment.victim) continue;
      // A rank that is a call ahead misses those that wait for it, too.
      EXPECT_THAT(said[rank],
                  AllOf(HasSubstr("DEADLINE_EXCEEDED"),
                        ContainsRegex(absl::StrCat("missing ranks? ([0-9], )*",
                                                   moment.victim))))
          << "seed " << seed << ", rank " << rank;
    }
  }
  EXPECT_THAT(OrphanedSegments(), IsEmpty());
}

}  // namespace
}  // namespace muonshard::testing
