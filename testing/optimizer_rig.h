// One rank's parameters and the optimizer that is bound to them, for tests that
// take their steps by hand. Values and gradients are those of a ShardedCase.

#ifndef TESTING_OPTIMIZER_RIG_H_
#define TESTING_OPTIMIZER_RIG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/collective.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "topology/rank.h"

namespace muonshard::testing {

struct OptimizerRig {
  // By parameter; without bytes where it does not live on the rank.
  std::vector<ParameterBytes> parameters;
  // Reads the parameters, so it goes first.
  std::unique_ptr<ShardedOptimizer> optimizer;
};

// On the host that the case says.
absl::StatusOr<OptimizerRig> MakeRig(const ShardedCase& sharded,
                                     Collective& world,
                                     OptimizerEnvironment environment = {});

// Checks p in once, with the whole gradient of its one micro-batch.
absl::Status CheckIn(const ShardedCase& sharded, Rank rank, int32_t p,
                     int64_t step, ShardedOptimizer& optimizer);

// Checks in what lives on `rank`, last registered first, but for `leave_out`.
absl::Status CheckInAll(const ShardedCase& sharded, Rank rank, int64_t step,
                        ShardedOptimizer& optimizer, int32_t leave_out = -1);

absl::Status FinishAndStep(ShardedOptimizer& optimizer,
                           const StepOptions& options = {});

// A whole step of one micro-batch.
absl::Status TakeRigStep(const ShardedCase& sharded, Rank rank, int64_t step,
                         ShardedOptimizer& optimizer,
                         const StepOptions& options = {});

// Waits until every rank of `world` is here.
absl::Status MeetAll(Collective& world);

// Runs `program` on each rank of the case's mesh, with a rig of its own.
using RigProgram = std::function<absl::Status(Collective&, OptimizerRig&)>;
std::vector<absl::Status> RunWithRigs(const ShardedCase& sharded,
                                      const RankRunOptions& options,
                                      const RigProgram& program);

}  // namespace muonshard::testing

#endif  // TESTING_OPTIMIZER_RIG_H_
