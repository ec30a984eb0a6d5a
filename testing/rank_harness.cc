#include "testing/rank_harness.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/sim_runtime.h"
#include "collectives/runtime/threads_runtime.h"

namespace muonshard::testing {
namespace {

using ContextProgram = std::function<absl::Status(RankContext&)>;

void RunPrograms(Runtime& runtime, const RankRunOptions& options,
                 const ContextProgram& program, RankRun& run) {
  const auto size = static_cast<size_t>(options.size);
  const PluginSearch search =
      PluginSearchFromEnvironment(options.plugin, options.plugin_options);
  absl::StatusOr<std::unique_ptr<Plugin>> plugin =
      Plugin::Open(search, runtime);
  if (!plugin.ok()) {
    run.results.assign(size, plugin.status());
    return;
  }
  const std::unique_ptr<Store> store = NewInProcessStore(runtime);

  std::vector<std::unique_ptr<Collective>> worlds(size);
  const auto run_rank = [&](Rank rank) -> absl::Status {
    absl::StatusOr<std::unique_ptr<Collective>> group =
        (*plugin)->NewGroup({.rank = rank,
                             .size = options.size,
                             .deadline = GuardDeadline(runtime),
                             .store = store.get()});
    if (!group.ok()) return group.status();
    std::unique_ptr<Collective>& world =
        worlds[static_cast<size_t>(ToInt(rank))];
    world = *std::move(group);
    RankContext context = {.plugin = **plugin,
                           .store = *store,
                           .runtime = runtime,
                           .rank = rank,
                           .world = world};
    absl::Status result = program(context);
    if (!result.ok() && world != nullptr) world->Abort(result);
    return result;
  };
  run.results = RunRanks(runtime, options.size, run_rank);
  worlds.clear();
  absl::StatusOr<std::string> report = (*plugin)->Report();
  run.plugin_report =
      report.ok() ? *std::move(report) : report.status().ToString();
}

}  // namespace

std::vector<RuntimeCase> BothRuntimes(int32_t seeds) {
  std::vector<RuntimeCase> cases = {{.kind = RuntimeCase::Kind::kThreads}};
  for (int32_t seed = 1; seed <= seeds; ++seed) {
    cases.push_back(
        {.kind = RuntimeCase::Kind::kSim, .seed = static_cast<uint64_t>(seed)});
  }
  return cases;
}

std::string ToString(const RuntimeCase& runtime) {
  return runtime.kind == RuntimeCase::Kind::kThreads
             ? "Threads"
             : absl::StrCat("Sim", runtime.seed);
}

void PrintTo(const RuntimeCase& runtime, std::ostream* out) {
  *out << ToString(runtime);
}

RankRun RunOnRanks(const RankRunOptions& options,
                   const std::function<absl::Status(Collective&)>& program) {
  return RunOnRanks(options, ContextProgram([&program](RankContext& context) {
                      return program(*context.world);
                    }));
}

RankRun RunOnRanks(const RankRunOptions& options,
                   const ContextProgram& program) {
  RankRun run;
  if (options.runtime.kind == RuntimeCase::Kind::kThreads) {
    const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
    RunPrograms(*runtime, options, program, run);
    return run;
  }
  // In case that the program is dropped where it stands.
  run.results.assign(static_cast<size_t>(options.size),
                     absl::UnknownError("the rank did not end"));
  const std::unique_ptr<SimRuntime> runtime = SimRuntime::Create(
      {.seed = options.runtime.seed,
       .stack_bytes = options.stack_bytes,
       .scheduler = options.runtime.scheduler,
       .choice_count_max = options.runtime.choice_count_max});
  run.ended = runtime->Run([&] {
    const absl::Time begin = runtime->Now();
    RunPrograms(*runtime, options, program, run);
    run.simulated = runtime->Now() - begin;
  });
  run.trace_hash = runtime->trace_hash();
  run.choice_count = runtime->choice_count();
  for (absl::Status& result : run.results) {
    if (result.ok()) result = run.ended;
  }
  return run;
}

absl::Time GuardDeadline(Runtime& runtime) {
  return runtime.Now() + absl::Minutes(2);
}

}  // namespace muonshard::testing
