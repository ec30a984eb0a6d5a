// A ShardedCase run sharded over ranks, and unsharded on one.

#ifndef TESTING_SHARDED_RUN_H_
#define TESTING_SHARDED_RUN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "optimizer/grad_scaler.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/operation_count.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "topology/rank.h"

namespace muonshard::testing {

struct ShardedRun {
  std::vector<absl::Status> results;  // In rank order.
  // As those of a RankRun.
  uint64_t trace_hash = 0;
  absl::Status ended;
  uint64_t choice_count = 0;
  absl::Duration simulated;
  // [rank][parameter], after the last step; empty where it does not live.
  std::vector<std::vector<ParameterBytes>> parameters;
  // [rank][step - 1]; the default outcome of a step that failed.
  std::vector<std::vector<StepOutcome>> outcomes;
  std::vector<std::vector<absl::Status>> step_results;
  // [rank][parameter]: the number of steps and all that State shows.
  std::vector<std::vector<ParameterBytes>> states;
  std::vector<int32_t> recoveries;  // By rank.
  // [rank]: what a rank recovered from, steps and attempts to resync.
  std::vector<std::vector<absl::Status>> failures;
  // By rank: those of all steps, without what made the groups.
  std::vector<OperationRange> operations;
  std::vector<OptimizerStatistics> statistics;  // By rank.
  std::vector<GradScalerState> scalers;         // By rank.
  std::string plugin_report;
};

// What a run does besides; each function on every rank, for the rank's program.
struct ShardedRunOptions {
  std::string plugin_options = "";  // JSON, for loopback.
  // With bound parameters, before the first step.
  std::function<absl::Status(Rank rank, std::vector<ParameterBytes>& parameters,
                             GradScaler& scaler, ShardedOptimizer& optimizer)>
      before_steps = nullptr;
  // After a step that did not fail, once all its parameters have come. Given,
  // no step is left to the wait of the next BeginStep.
  std::function<absl::Status(
      Rank rank, int64_t step, const std::vector<ParameterBytes>& parameters,
      const GradScaler& scaler, ShardedOptimizer& optimizer)>
      after_step = nullptr;
  int64_t first_step = 1;
};

// Runs the case on loopback.
ShardedRun RunSharded(const ShardedCase& sharded, const RuntimeCase& runtime,
                      const ShardedRunOptions& options = {});

// One step of `optimizer` for the program of the own rank of `world`: all
// check-ins in an order of the rank's own, Finish, Step.
absl::Status TakeStep(const ShardedCase& sharded, Collective& world,
                      int64_t step, ShardedOptimizer& optimizer,
                      double loss_scale = 1);

// What every rank's parameters must be, [rank][parameter], every outcome and
// every step's result.
struct UnshardedRun {
  std::vector<std::vector<ParameterBytes>> parameters;
  std::vector<StepOutcome> outcomes;
  std::vector<absl::Status> step_results;
  GradScalerState scaler;
};
absl::StatusOr<UnshardedRun> RunUnsharded(const ShardedCase& sharded);

}  // namespace muonshard::testing

#endif  // TESTING_SHARDED_RUN_H_
