// Muon and AdamW for parameters that every rank of a group holds and whose
// gradients differ by rank, with the work and the state cut over the ranks.
//
//   BeginStep(micro_batches)
//   GradientReady(p, ...)          from hooks, once a micro-batch
//   Finish() -> ReducedGradients
//   Step(ReducedGradients, ...)
//   WaitForParameters(p)           before the next forward reads p
//
// In this file
//   p        index of a parameter in the specs given to `Create`
//   program  the task that calls everything but GradientReady
//
// Ordering     All ranks begin, finish and step in the same order, with the
//              same micro-batches and options. The order of gradients, and
//              which exist, may differ; collectives never depend on it.
// Threads      `GradientReady`, `GradientView` and `WaitForParameters` from any
//              task, the rest from the program alone. Finish waits for the
//              GradientReady that have begun.
// Memory       Parameters are the caller's, bound once; they are read while an
//              update runs and written only inside WaitForParameters and
//              Synchronize. Gradients are borrowed for the call. State and
//              buckets are the optimizer's.
// Numerics     Same inputs and a plugin that promises `canonical`: the same
//              bits on every rank, for every number of ranks that gives the
//              same fold of gradients, every bucket size, overlap on or off.
// Errors       A step is a transaction: what is wrong with it on one rank, or a
//              gradient that is not finite, leaves every parameter and all
//              state as they were, on all ranks. The error names rank and
//              parameter and comes on every rank, from whatever waits for the
//              step; one that neither Outcome nor Synchronize has returned is
//              returned, once, by the next BeginStep.
//              A failed collective breaks its group, and no later step of this
//              optimizer succeeds. If that was a gather or the control
//              all-reduce, ranks may differ, and BeginStep itself refuses.
//              Recovery is a new group and a new optimizer.

#ifndef OPTIMIZER_SHARDED_OPTIMIZER_H_
#define OPTIMIZER_SHARDED_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/collective.h"
#include "collectives/data_type.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "optimizer/reduced_gradients.h"
#include "optimizer/step_options.h"
#include "optimizer/step_trace.h"
#include "topology/mesh.h"

namespace muonshard {

// Since creation, on this rank.
struct OptimizerStatistics {
  // Payload sent to reduce and to gather, by the plugins' counters.
  uint64_t bucket_bytes_sent = 0;
  uint64_t control_bytes_sent = 0;
  // Gradients that a kView parameter had elsewhere at check-in.
  int64_t view_misses = 0;
};

// What a rank brings besides what all ranks declare alike.
struct OptimizerEnvironment {
  StepTraceSink trace;
  // The identity of the own host. Empty: LocalHostId().
  std::string host_id;
  // Other groups of the ranks of `world`, of any plugin, from which the host
  // and lane levels of hierarchical groups are split; see `Create` for how long
  // they live. Null: `world`. Null or not alike on all ranks.
  Collective* host_level_world = nullptr;
  Collective* lane_level_world = nullptr;
};

class ShardedOptimizer {
 public:
  // Checks specs, mesh and options, learns who runs on which host, makes the
  // plan and compares it over the ranks, then makes the groups. A collective
  // call over `world`, whose ranks are those of `mesh` and which outlives the
  // optimizer. On error every rank fails with the first error or difference.
  static absl::StatusOr<std::unique_ptr<ShardedOptimizer>> Create(
      std::vector<ParameterSpec> specs, const Mesh& mesh, Collective& world,
      const OptimizerOptions& options, OptimizerEnvironment environment = {});

  virtual ~ShardedOptimizer() = default;

  virtual const Plan& plan() const = 0;

  // Gives the memory of parameter p: all its elements in its dtype. Before the
  // first BeginStep, once for each parameter.
  virtual absl::Status BindParameter(int32_t p, void* data) = 0;

  // Where a kView parameter accumulates its gradient, all zeros between
  // BeginStep and the first backward. Null if p lies in several pieces or has
  // another mode; such gradients are given to GradientReady.
  virtual void* GradientView(int32_t p) = 0;

  // Declares the step's micro-batches, >= 1.
  virtual absl::Status BeginStep(int32_t micro_batches) = 0;

  // Checks in the gradient of p for one micro-batch: `count` elements of
  // `dtype` (of the spec's gradient_dtype; any floating type for kAccumulate).
  // For kAccumulate they are this micro-batch's alone; for kView, where `data`
  // may be the view itself, and kCopyLast they are the sum of the step's
  // micro-batches so far. Not for one p from two tasks at once. An error of a
  // p in a step is this call's, and also fails the step on every rank.
  virtual absl::Status GradientReady(int32_t p, const void* data, int64_t count,
                                     DataType dtype) = 0;

  // Ends the backward: launches what no check-in launched.
  virtual absl::StatusOr<ReducedGradients> Finish() = 0;

  // Decides once, on all ranks alike: update or skip, with which clip factor;
  // then updates and gathers.
  virtual absl::Status Step(ReducedGradients gradients,
                            const StepOptions& options) = 0;

  // Waits for the decision of the latest step, or returns its error.
  virtual absl::StatusOr<StepOutcome> Outcome() = 0;

  // Waits until parameter p, the one named `name`, or all have their new
  // values. Gathers come in forward order. A parameter that does not live here
  // has nothing to wait for.
  virtual absl::Status WaitForParameters(int32_t p) = 0;
  virtual absl::Status WaitForParameters(absl::string_view name) = 0;
  virtual absl::Status WaitForParameters() = 0;

  // Waits for the latest step and all its parameters; returns its error.
  virtual absl::Status Synchronize() = 0;

  virtual absl::StatusOr<OptimizerStatistics> Statistics() const = 0;

 protected:
  // The only maker and the only consumer of ReducedGradients.
  ReducedGradients MakeReducedGradients(int64_t step) const {
    return ReducedGradients(this, step);
  }
  // False if `gradients` are not this optimizer's or were consumed before.
  bool Consume(ReducedGradients gradients) const {
    return std::exchange(gradients.owner_, nullptr) == this;
  }
};

}  // namespace muonshard

#endif  // OPTIMIZER_SHARDED_OPTIMIZER_H_
