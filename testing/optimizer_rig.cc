#include "testing/optimizer_rig.h"

#include <utility>

#include "testing/rank_harness.h"

namespace muonshard::testing {
namespace {

bool LivesHere(const ShardedCase& sharded, Rank rank, int32_t p) {
  return LivesOn(sharded.specs[static_cast<size_t>(p)],
                 *Mesh::Parse(sharded.mesh), rank);
}

}  // namespace

absl::StatusOr<OptimizerRig> MakeRig(const ShardedCase& sharded,
                                     Collective& world,
                                     OptimizerEnvironment environment) {
  const Mesh mesh = *Mesh::Parse(sharded.mesh);
  if (!sharded.hosts.empty()) {
    environment.host_id =
        sharded.hosts[static_cast<size_t>(ToInt(world.rank()))];
  }
  auto optimizer = ShardedOptimizer::Create(
      sharded.specs, mesh, world, sharded.options, std::move(environment));
  if (!optimizer.ok()) return optimizer.status();
  OptimizerRig rig;
  rig.optimizer = *std::move(optimizer);
  rig.parameters.resize(sharded.specs.size());
  for (size_t p = 0; p < rig.parameters.size(); ++p) {
    const auto index = static_cast<int32_t>(p);
    if (!LivesHere(sharded, world.rank(), index)) continue;
    rig.parameters[p] = FirstValuesOf(sharded, mesh, world.rank(), index);
    const absl::Status s =
        rig.optimizer->BindParameter(index, rig.parameters[p].data());
    if (!s.ok()) return s;
  }
  return rig;
}

absl::Status CheckIn(const ShardedCase& sharded, Rank rank, int32_t p,
                     int64_t step, ShardedOptimizer& optimizer) {
  const ParameterSpec& spec = sharded.specs[static_cast<size_t>(p)];
  const ParameterBytes gradient = GradientOf(sharded, rank, p, step, 0);
  return optimizer.GradientReady(p, gradient.data(), ElementCount(spec),
                                 spec.gradient_dtype);
}

absl::Status CheckInAll(const ShardedCase& sharded, Rank rank, int64_t step,
                        ShardedOptimizer& optimizer, int32_t leave_out) {
  for (auto p = static_cast<int32_t>(sharded.specs.size()); p-- > 0;) {
    if (p == leave_out || !LivesHere(sharded, rank, p)) continue;
    const absl::Status s = CheckIn(sharded, rank, p, step, optimizer);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status FinishAndStep(ShardedOptimizer& optimizer,
                           const StepOptions& options) {
  absl::StatusOr<ReducedGradients> reduced = optimizer.Finish();
  if (!reduced.ok()) return reduced.status();
  return optimizer.Step(*std::move(reduced), options);
}

absl::Status TakeRigStep(const ShardedCase& sharded, Rank rank, int64_t step,
                         ShardedOptimizer& optimizer,
                         const StepOptions& options) {
  absl::Status s = optimizer.BeginStep(1);
  if (s.ok()) s = CheckInAll(sharded, rank, step, optimizer);
  return s.ok() ? FinishAndStep(optimizer, options) : s;
}

absl::Status MeetAll(Collective& world) {
  return AwaitEnd(world.Barrier({.deadline = GuardDeadline(world.runtime())}));
}

std::vector<absl::Status> RunWithRigs(const ShardedCase& sharded,
                                      const RankRunOptions& options,
                                      const RigProgram& program) {
  RankRunOptions sized = options;
  sized.size = Mesh::Parse(sharded.mesh)->size();
  return RunOnRanks(sized,
                    [&](Collective& world) {
                      absl::StatusOr<OptimizerRig> rig =
                          MakeRig(sharded, world);
                      return rig.ok() ? program(world, *rig) : rig.status();
                    })
      .results;
}

}  // namespace muonshard::testing
