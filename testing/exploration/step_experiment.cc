#include "testing/exploration/step_experiment.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/runtime/sim_scheduler.h"
#include "testing/combination/combination_mesh.h"
#include "testing/rank_harness.h"
#include "testing/run_difference.h"
#include "testing/sharded_case.h"
#include "topology/mesh.h"

namespace muonshard::testing {
namespace {

class StepExperiment final : public Experiment {
 public:
  StepExperiment(ShardedCase sharded, UnshardedRun expected)
      : sharded_(std::move(sharded)), expected_(std::move(expected)) {}

  ExploredRun Run(const ExploredSchedule& schedule,
                  uint64_t seed) const override {
    const ShardedRun run =
        RunSharded(sharded_,
                   {.kind = RuntimeCase::Kind::kSim,
                    .scheduler = &schedule.scheduler,
                    .choice_count_max = schedule.choice_count_max},
                   PluginOptions(seed));
    return {.result = CheckSameRun(sharded_, run, expected_),
            .trace_hash = run.trace_hash,
            .choice_count = run.choice_count};
  }

 private:
  // In half of the runs small operations are not run inside a post, but as late
  // as their ranks' tasks get to run.
  static std::string PluginOptions(uint64_t seed) {
    return MixBits(seed) % 2 == 0 ? "{}" : "{\"small_bytes\": 0}";
  }

  const ShardedCase sharded_;
  const UnshardedRun expected_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Experiment>> NewStepExperiment(
    const StepExperimentOptions& options) {
  absl::StatusOr<Mesh> mesh = Mesh::Parse(options.mesh);
  if (!mesh.ok()) return mesh.status();
  if (options.lanes_per_node < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lanes per node: want 1 or more, got ", options.lanes_per_node));
  }
  ShardedCase sharded = CaseOf({.mesh = options.mesh}, options.combination,
                               GradientValues::kRandom);
  for (int32_t rank = 0; rank < mesh->size(); ++rank) {
    sharded.hosts.push_back(
        absl::StrCat("host", rank / options.lanes_per_node));
  }
  absl::StatusOr<UnshardedRun> expected = RunUnsharded(sharded);
  if (!expected.ok()) return expected.status();
  return std::make_unique<StepExperiment>(std::move(sharded),
                                          *std::move(expected));
}

}  // namespace muonshard::testing
