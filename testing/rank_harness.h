// Runs one program per rank, over a plugin, on either runtime.
//
//   TEST_P(StepTest, EveryRankEndsWithTheSameParameters) {
//     const RankRun run = RunOnRanks(
//         {.runtime = GetParam(), .size = 4}, [&](Collective& world) {
//           return TakeOneStep(world);
//         });
//     EXPECT_THAT(run.results, Each(IsOk()));
//   }
//   INSTANTIATE_TEST_SUITE_P(Runtimes, StepTest,
//                            ValuesIn(BothRuntimes(5)), RuntimeCaseName);
//
// Threads      A program runs on a task of its own. It may use gtest's EXPECT
//              macros and, like all code above the runtime, blocks only
//              through `world.runtime()`.
// Memory       A rank's groups live until all programs have ended, so that a
//              rank that is done early does not look like one that left.
// Errors       A program that returns an error aborts its world with it, so
//              that the others do not wait for the guard.

#ifndef TESTING_RANK_HARNESS_H_
#define TESTING_RANK_HARNESS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/plugin.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/sim_scheduler.h"
#include "collectives/store.h"
#include "topology/rank.h"

namespace muonshard::testing {

// Which runtime a test runs on.
struct RuntimeCase {
  enum class Kind { kThreads, kSim };

  Kind kind = Kind::kThreads;
  uint64_t seed = 0;  // Of kSim.
  // Of kSim: who runs next, instead of a random walk from `seed`, and the most
  // choices of one run.
  SimScheduler* scheduler = nullptr;
  uint64_t choice_count_max = std::numeric_limits<uint64_t>::max();
};

// Threads once, and the simulated runtime with seeds 1 to `seeds`.
std::vector<RuntimeCase> BothRuntimes(int32_t seeds);

// "Threads", "Sim7".
std::string ToString(const RuntimeCase& runtime);
void PrintTo(const RuntimeCase& runtime, std::ostream* out);

// What INSTANTIATE_TEST_SUITE_P calls to name a case.
struct RuntimeCaseNamer {
  template <typename ParamInfo>
  std::string operator()(const ParamInfo& info) const {
    return ToString(info.param);
  }
};
inline constexpr RuntimeCaseNamer RuntimeCaseName;

struct RankRunOptions {
  RuntimeCase runtime;
  int32_t size = 1;
  // A name, sought as PluginSearchFromEnvironment says, or a path.
  std::string plugin = "loopback";
  std::string plugin_options = "";  // JSON, or empty.
  // Of each fiber on the simulated runtime.
  size_t stack_bytes = size_t{1} << 20;
};

struct RankRun {
  // In rank order. What ended the run as a whole (a plugin that does not load,
  // a deadlock found by the simulated runtime) stands in place of each OK.
  std::vector<absl::Status> results;
  // What the simulated runtime found: a deadlock, a task that was left over, a
  // run without an end. Also where every rank has an error of its own.
  absl::Status ended;
  // Of the simulated runtime: equal for equal programs and seeds.
  uint64_t trace_hash = 0;
  uint64_t choice_count = 0;
  // How far the clock of the simulated runtime went. Not at all in a run in
  // which nothing waited for its deadline.
  absl::Duration simulated;
  // What the plugin tells of itself when all groups are gone; see
  // Plugin::Report.
  std::string plugin_report;
};

// What a rank's program finds around it.
struct RankContext {
  Plugin& plugin;
  Store& store;
  Runtime& runtime;
  Rank rank;
  // Of all ranks. A program that resets it leaves the group.
  std::unique_ptr<Collective>& world;
};

RankRun RunOnRanks(const RankRunOptions& options,
                   const std::function<absl::Status(Collective&)>& program);
RankRun RunOnRanks(const RankRunOptions& options,
                   const std::function<absl::Status(RankContext&)>& program);

// A deadline that no correct program reaches: it turns a hang into a failure.
absl::Time GuardDeadline(Runtime& runtime);

}  // namespace muonshard::testing

#endif  // TESTING_RANK_HARNESS_H_
