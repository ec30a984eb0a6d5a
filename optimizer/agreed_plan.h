// The plan of an optimizer, the same on every rank of its world.

#ifndef OPTIMIZER_AGREED_PLAN_H_
#define OPTIMIZER_AGREED_PLAN_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "optimizer/group_set.h"
#include "optimizer/optimizer_environment.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "topology/mesh.h"

namespace muonshard {

LevelWorlds LevelWorldsOf(const OptimizerEnvironment& environment);

// Compares the plan, if there is one, and the environment over the ranks.
// `local` is this rank's own error; see agreement.h. A collective call.
absl::Status AgreeOnPlan(Collective& world, const absl::Status& local,
                         const Plan* plan,
                         const OptimizerEnvironment& environment,
                         absl::Time deadline);

// Checks mesh, options and environment, learns who runs on which host, makes
// the plan and compares it over the ranks. A collective call: on error every
// rank fails with the first error or difference.
absl::StatusOr<Plan> AgreedPlan(const std::vector<ParameterSpec>& specs,
                                const Mesh& mesh, Collective& world,
                                const OptimizerOptions& options,
                                const OptimizerEnvironment& environment,
                                absl::Time deadline);

}  // namespace muonshard

#endif  // OPTIMIZER_AGREED_PLAN_H_
