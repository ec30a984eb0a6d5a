// Muon and AdamW for parameters that every rank of a group holds and whose
// gradients differ by rank, with the work and the state cut over the ranks.
//
//   BeginStep(micro_batches)      GradientReady(p, ...) once a micro-batch
//   Step(Finish(), ...)           WaitForParameters(p) before p is read
//
// In this file
//   p        index of a parameter in the specs given to `Create`
//   program  the task that calls everything but GradientReady
//   here     on the own rank; where a parameter does not live it has no memory,
//            no gradient and nothing to wait for
//
// Ordering     All ranks begin, finish and step in the same order, with the
//              same micro-batches and options. The order of gradients, and
//              which exist, may differ; collectives never depend on it.
// Threads      `GradientReady`, `GradientView` and `WaitForParameters` from any
//              task, the rest from the program alone. Finish waits for the
//              GradientReady that have begun.
// Memory       Parameters are the caller's, bound once; they are read while an
//              update runs and written only inside WaitForParameters,
//              Synchronize and, with GatherMode::kEager, Step. Gradients are
//              borrowed for the call. State and buckets are the optimizer's.
// Numerics     Same inputs and a plugin that promises `canonical`: the same
//              bits on every rank, for every number of ranks that gives the
//              same fold of gradients, every bucket size, overlap on or off,
//              gathers eager or lazy.
// Errors       A step is a transaction: what is wrong with it on one rank, or a
//              gradient that is not finite, leaves every parameter and all
//              state as they were, on all ranks. The error names rank and
//              parameter and comes on every rank, from whatever waits for the
//              step; one that neither Outcome nor Synchronize has returned is
//              returned, once, by the next BeginStep.
//              A failed collective breaks its group, and no later step of this
//              optimizer succeeds. If that was a gather or the control
//              all-reduce, ranks may differ, and BeginStep itself refuses.
//              Recovery: Resync on a new group or, if a rank lost its memory,
//              an optimizer with restored state.

#ifndef OPTIMIZER_SHARDED_OPTIMIZER_H_
#define OPTIMIZER_SHARDED_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/collective.h"
#include "collectives/data_type.h"
#include "optimizer/optimizer_environment.h"
#include "optimizer/optimizer_state.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "optimizer/reduced_gradients.h"
#include "optimizer/step_options.h"
#include "topology/mesh.h"

namespace muonshard {

class ShardedOptimizer {
 public:
  // Makes the plan, compares it over the ranks, and makes the groups. A
  // collective call over `world`, whose ranks are those of `mesh` and which
  // outlives the optimizer. On error every rank fails with the first one.
  static absl::StatusOr<std::unique_ptr<ShardedOptimizer>> Create(
      std::vector<ParameterSpec> specs, const Mesh& mesh, Collective& world,
      const OptimizerOptions& options, OptimizerEnvironment environment = {});
  struct Resynced {
    std::unique_ptr<ShardedOptimizer> optimizer;
    StepOutcome last;  // That counts, on all ranks alike; step 0: none.
  };
  // Goes on after a failure on `world`, a new group of the same ranks in their
  // order, as resync.h says. A collective call. The new optimizer has memory,
  // state and bound parameters, and `failed` may only be destroyed; on error
  // all may try again, on another group. The next step is last.step + 1.
  static absl::StatusOr<Resynced> Resync(ShardedOptimizer& failed,
                                         Collective& world,
                                         OptimizerEnvironment environment = {});

  virtual ~ShardedOptimizer() = default;
  virtual const Plan& plan() const = 0;

  // Gives the memory of parameter p: all its elements in its dtype, and none of
  // another's. Before the first BeginStep, once for each that lives here.
  virtual absl::Status BindParameter(int32_t p, void* data) = 0;
  // Copies what `State(p)` was on this rank of an optimizer with an equal plan.
  // With the values that p had then, and `RestoreStep`, steps have the bits
  // that they would have had there. Before the first BeginStep.
  virtual absl::Status RestoreState(int32_t p, const ParameterState& state) = 0;
  // The next step is `step` + 1; else it is 1. The same on all ranks, or the
  // step fails on all. Before the first BeginStep.
  virtual absl::Status RestoreStep(int64_t step) = 0;
  // Where a kView parameter accumulates its gradient, all zeros between
  // BeginStep and the first backward. Null if p lies in several pieces, has
  // another mode (such gradients are given to GradientReady) or does not live
  // here. Asked for anew in each step if gradients are released: after Finish
  // the memory is given back.
  virtual void* GradientView(int32_t p) = 0;

  // Declares the step's micro-batches, >= 1, when the last step is over.
  virtual absl::Status BeginStep(int32_t micro_batches) = 0;

  // Checks in the gradient of p for one micro-batch: `count` elements of
  // `dtype` (of the spec's gradient_dtype; any floating type for kAccumulate).
  // For kAccumulate they are this micro-batch's alone; for kView, where `data`
  // may be the view itself, and kCopyLast they are the sum of the step's
  // micro-batches so far. A kSyncOnly parameter checks in as often as it likes,
  // once or more, whatever the micro-batches. Not for one p from two tasks at
  // once. An error of a p in a step is this call's, and also fails the step on
  // every rank.
  virtual absl::Status GradientReady(int32_t p, const void* data, int64_t count,
                                     DataType dtype) = 0;

  // Ends the backward: launches what no check-in launched.
  virtual absl::StatusOr<ReducedGradients> Finish() = 0;
  // Decides once, on all ranks alike, then updates and gathers. Returns when
  // that is under way, or over, as `gather` and `synchronous_errors` say.
  virtual absl::Status Step(ReducedGradients gradients,
                            const StepOptions& options) = 0;

  // Waits for the decision of the latest step, or returns its error.
  virtual absl::StatusOr<StepOutcome> Outcome() = 0;
  // Waits until p, or all, have their new values; they come in forward order.
  virtual absl::Status WaitForParameters(int32_t p) = 0;
  virtual absl::Status WaitForParameters(absl::string_view name) = 0;
  virtual absl::Status WaitForParameters() = 0;
  // Waits for the latest step and all its parameters; returns its error.
  virtual absl::Status Synchronize() = 0;
  // What this rank keeps of p, if it lives here. Waits until no update writes
  // it, whatever became of the step.
  virtual absl::StatusOr<ParameterState> State(int32_t p) = 0;
  virtual absl::StatusOr<OptimizerStatistics> Statistics() const = 0;

 protected:
  // The only maker and the only consumer of ReducedGradients: false if they are
  // not this optimizer's or were consumed before.
  ReducedGradients MakeReducedGradients(int64_t step) const {
    return ReducedGradients(this, step);
  }
  bool Consume(ReducedGradients gradients) const {
    return std::exchange(gradients.owner_, nullptr) == this;
  }
};

}  // namespace muonshard

#endif  // OPTIMIZER_SHARDED_OPTIMIZER_H_
