#include "optimizer/sharded_optimizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/work.h"
#include "optimizer/agreed_plan.h"
#include "optimizer/sharded_optimizer_impl.h"

namespace muonshard {

absl::StatusOr<std::unique_ptr<ShardedOptimizer>> ShardedOptimizer::Create(
    std::vector<ParameterSpec> specs, const Mesh& mesh, Collective& world,
    const OptimizerOptions& options, OptimizerEnvironment environment) {
  // The options may be out of range, and other ranks need to hear of it in
  // some finite time.
  const bool usable = options.timeout > absl::ZeroDuration() &&
                      options.timeout < absl::InfiniteDuration();
  const absl::Duration timeout =
      usable ? options.timeout : OptimizerOptions().timeout;
  const absl::Time deadline = world.runtime().Now() + timeout;
  absl::StatusOr<Plan> plan =
      AgreedPlan(specs, mesh, world, options, environment, deadline);
  if (!plan.ok()) return plan.status();
  absl::StatusOr<GroupSet> groups =
      GroupSet::Create(*plan, world, LevelWorldsOf(environment), deadline);
  if (!groups.ok()) return groups.status();
  auto memory = std::make_shared<OptimizerMemory>(
      *std::move(plan), world.rank(), options, world.runtime());
  return std::make_unique<ShardedOptimizerImpl>(std::move(memory), world,
                                                *std::move(groups),
                                                std::move(environment.trace));
}

absl::StatusOr<ShardedOptimizer::Resynced> ShardedOptimizer::Resync(
    ShardedOptimizer& failed, Collective& world,
    OptimizerEnvironment environment) {
  // There is no other kind.
  auto& old = static_cast<ShardedOptimizerImpl&>(failed);
  const std::shared_ptr<OptimizerMemory>& memory = old.memory();
  const absl::Time deadline = world.runtime().Now() + memory->options.timeout;
  absl::Status own = old.CheckCanResync(world);
  const LevelWorlds levels = LevelWorldsOf(environment);
  if (own.ok()) own = CheckLevelWorlds(world, levels);
  // The old groups hold the buffers, and what they still do is done again.
  old.EndAll(absl::AbortedError(
      absl::StrCat("rank ", ToInt(memory->rank), " resyncs its optimizer")));
  absl::Status s =
      AgreeOnPlan(world, own, &memory->plan, environment, deadline);
  if (!s.ok()) return s;
  if (s = old.TakeCommonStep(world, deadline); !s.ok()) return s;
  absl::StatusOr<GroupSet> groups =
      GroupSet::Create(memory->plan, world, levels, deadline);
  if (!groups.ok()) return groups.status();
  auto next = std::make_unique<ShardedOptimizerImpl>(
      memory, world, *std::move(groups), std::move(environment.trace));
  if (s = next->GoOnBehind(old, deadline); !s.ok()) return s;
  // A rank that fails has to be heard of by those that did not, before they
  // begin a step.
  s = AwaitEnd(world.Barrier({.label = "resync: end", .deadline = deadline}));
  if (!s.ok()) return s;
  old.HandOver();
  const StepOutcome last = next->last_outcome();
  return Resynced{.optimizer = std::move(next), .last = last};
}

}  // namespace muonshard
