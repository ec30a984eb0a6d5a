#include "testing/exploration/step_experiment.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/runtime/sim_scheduler.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "testing/combination/combination_mesh.h"
#include "testing/exploration/fault_experiment.h"
#include "testing/rank_harness.h"
#include "testing/run_difference.h"
#include "testing/seeded_random.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"
#include "topology/mesh.h"

namespace muonshard::testing {
namespace {

// A case and what becomes of it.
struct Expectation {
  ShardedCase sharded;
  UnshardedRun unsharded;
  // Every rank refuses the case at construction, and says so; empty: none does.
  std::string refusal;
};

absl::Status CheckRefused(const ShardedRun& run, const std::string& reason) {
  if (!run.ended.ok()) return run.ended;
  for (size_t r = 0; r < run.results.size(); ++r) {
    if (absl::StrContains(run.results[r].message(), reason)) continue;
    return absl::DataLossError(
        absl::StrCat("rank ", r, ": want a refusal that says \"", reason,
                     "\", got ", run.results[r].ToString()));
  }
  return absl::OkStatus();
}

absl::Status CheckRun(const Expectation& expected, const ShardedRun& run) {
  const absl::Status held =
      expected.refusal.empty()
          ? CheckSameRun(expected.sharded, run, expected.unsharded)
          : CheckRefused(run, expected.refusal);
  if (!held.ok()) return held;
  // The clock moves when nothing can run, and here nobody has to wait for it.
  if (run.simulated == absl::ZeroDuration()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "a wait was ended by its deadline and not by what it waited for, after ",
      absl::FormatDuration(run.simulated), ": want every wait woken"));
}

ExploredRun RunExpected(const Expectation& expected,
                        const ExploredSchedule& schedule, uint64_t seed) {
  // In half of the runs small operations are not run inside a post, but as late
  // as their ranks' tasks get to run.
  const char* const plugin_options =
      MixBits(seed) % 2 == 0 ? "{}" : "{\"small_bytes\": 0}";
  const ShardedRun run =
      RunSharded(expected.sharded,
                 {.kind = RuntimeCase::Kind::kSim,
                  .scheduler = &schedule.scheduler,
                  .choice_count_max = schedule.choice_count_max},
                 {.plugin_options = plugin_options});
  return {.result = CheckRun(expected, run),
          .trace_hash = run.trace_hash,
          .choice_count = run.choice_count};
}

class StepExperiment final : public Experiment {
 public:
  explicit StepExperiment(Expectation expected)
      : expected_(std::move(expected)) {}

  ExploredRun Run(const ExploredSchedule& schedule,
                  uint64_t seed) const override {
    return RunExpected(expected_, schedule, seed);
  }

 private:
  const Expectation expected_;
};

class VariedExperiment final : public Experiment {
 public:
  ExploredRun Run(const ExploredSchedule& schedule,
                  uint64_t seed) const override {
    absl::StatusOr<Expectation> expected = Draw(seed);
    if (!expected.ok()) return {.result = expected.status()};
    return RunExpected(*expected, schedule, seed);
  }

  bool varies() const override { return true; }

 private:
  absl::StatusOr<Expectation> Draw(uint64_t seed) const {
    SeededRandom random(seed);
    const CombinationMesh& mesh = meshes_[random.Below(meshes_.size())];
    const Combination& combination =
        combinations_[random.Below(combinations_.size())];
    Expectation expected;
    expected.sharded = CaseOf(mesh, combination, GradientValues::kRandom);
    if (combination.hierarchy == Hierarchy::kOn) {
      expected.refusal = mesh.refusal;
    }
    ShardedCase& sharded = expected.sharded;
    sharded.seed = seed;
    sharded.hook_tasks = 1 + static_cast<int32_t>(random.Below(3));
    if (random.OneIn(4)) {
      // Of the last step: an earlier one may fail for another reason.
      const Mesh parsed = *Mesh::Parse(sharded.mesh);
      sharded.extra_check_ins = {
          {.rank = Rank(static_cast<int32_t>(
               random.Below(static_cast<uint64_t>(parsed.size())))),
           .parameter = 0,
           .step = sharded.steps}};
    }
    if (!expected.refusal.empty()) return expected;
    absl::StatusOr<UnshardedRun> unsharded = RunUnsharded(sharded);
    if (!unsharded.ok()) return unsharded.status();
    expected.unsharded = *std::move(unsharded);
    return expected;
  }

  const std::vector<CombinationMesh> meshes_ = SmallMeshes();
  const std::vector<Combination> combinations_ = AllCombinations();
};

absl::Status CheckFaults(const StepExperimentOptions& options) {
  if (options.faults.empty()) return absl::OkStatus();
  if (options.vary) {
    return absl::InvalidArgumentError(
        "faults: want one case, whose operations can be counted, got a case "
        "that varies");
  }
  if (options.combination.absent == AbsentGradient::kError) {
    return absl::InvalidArgumentError(
        "faults: want a case that holds without them, got one in which an "
        "absent gradient is an error");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Experiment>> NewStepExperiment(
    const StepExperimentOptions& options) {
  if (absl::Status s = CheckFaults(options); !s.ok()) return s;
  if (options.vary) return std::make_unique<VariedExperiment>();
  absl::StatusOr<Mesh> mesh = Mesh::Parse(options.mesh);
  if (!mesh.ok()) return mesh.status();
  if (options.lanes_per_node < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lanes per node: want 1 or more, got ", options.lanes_per_node));
  }
  Expectation expected;
  expected.sharded = CaseOf({.mesh = options.mesh}, options.combination,
                            GradientValues::kRandom);
  for (int32_t rank = 0; rank < mesh->size(); ++rank) {
    expected.sharded.hosts.push_back(
        absl::StrCat("host", rank / options.lanes_per_node));
  }
  expected.sharded.hook_tasks = 2;
  const absl::StatusOr<Plan> plan =
      Plan::Create(expected.sharded.specs, *mesh,
                   HostsOf(expected.sharded, *mesh), expected.sharded.options);
  if (!plan.ok()) return plan.status();
  absl::StatusOr<UnshardedRun> unsharded = RunUnsharded(expected.sharded);
  if (!unsharded.ok()) return unsharded.status();
  expected.unsharded = *std::move(unsharded);
  if (!options.faults.empty()) {
    return NewFaultExperiment(expected.sharded, expected.unsharded,
                              options.faults);
  }
  return std::make_unique<StepExperiment>(std::move(expected));
}

}  // namespace muonshard::testing
