#include "optimizer/agreed_plan.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "collectives/host_exchange.h"
#include "optimizer/agreement.h"

namespace muonshard {

LevelWorlds LevelWorldsOf(const OptimizerEnvironment& environment) {
  return {.host_level = environment.host_level_world,
          .lane_level = environment.lane_level_world};
}

absl::Status AgreeOnPlan(Collective& world, const absl::Status& local,
                         const Plan* plan,
                         const OptimizerEnvironment& environment,
                         absl::Time deadline) {
  std::vector<std::string> lines;
  if (plan != nullptr) lines = plan->lines;
  lines.push_back(
      absl::StrCat("environment host_level_world=",
                   environment.host_level_world == nullptr ? "none" : "given",
                   " lane_level_world=",
                   environment.lane_level_world == nullptr ? "none" : "given"));
  return AgreeOnLines(world, local, lines, deadline);
}

absl::StatusOr<Plan> AgreedPlan(const std::vector<ParameterSpec>& specs,
                                const Mesh& mesh, Collective& world,
                                const OptimizerOptions& options,
                                const OptimizerEnvironment& environment,
                                absl::Time deadline) {
  absl::StatusOr<HostMap> hosts = ExchangeHosts(
      world, environment.host_id.empty() ? LocalHostId() : environment.host_id,
      deadline);
  if (!hosts.ok()) return hosts.status();
  absl::StatusOr<Plan> plan = [&]() -> absl::StatusOr<Plan> {
    if (absl::Status s = mesh.CheckSize(world.size()); !s.ok()) return s;
    if (absl::Status s = Validate(options); !s.ok()) return s;
    const LevelWorlds levels = LevelWorldsOf(environment);
    if (absl::Status s = CheckLevelWorlds(world, levels); !s.ok()) return s;
    return Plan::Create(specs, mesh, *hosts, options);
  }();
  const absl::Status agreed =
      AgreeOnPlan(world, plan.status(), plan.ok() ? &*plan : nullptr,
                  environment, deadline);
  if (!agreed.ok()) return agreed;
  return plan;
}

}  // namespace muonshard
