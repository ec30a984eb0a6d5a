// Holds a sharded run against the unsharded optimizer, bit for bit.
//
// Every rank hands over each gradient as autograd gave it. When all ranks have
// handed over a step, the gradients are folded in plain loops, in the canonical
// order (micro-batches, then ranks), and the unsharded optimizer takes the
// step. Nothing passes through the plugin, the plan or the buckets under test.
//
// Threads    Ranks call at once. The last rank of a step takes it, in
//            `EndBackward`.
// Memory     Copies of all gradients of the steps that are under way.
// Errors     What the unsharded optimizer refuses; kept, and returned by every
//            later call.

#ifndef TOOLS_TRAINER_VERIFY_H_
#define TOOLS_TRAINER_VERIFY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/runtime/runtime.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/unsharded/unsharded_optimizer.h"

namespace muonshard {

struct VerifyDifference {
  // NaN if one side alone is not a number.
  double max_abs = 0;
  int64_t different_count = 0;  // Elements whose bits differ.
};

struct VerifySetup {
  std::vector<ParameterSpec> specs;
  std::vector<std::vector<float>> initial_values;
  OptimizerOptions options;
  int32_t ranks = 1;
  double clip_norm = 0;
};

class Verifier {
 public:
  // All ranks hold different data: each divides by their number.
  static absl::StatusOr<std::unique_ptr<Verifier>> Create(Runtime& runtime,
                                                          VerifySetup setup);

  // The gradient of one backward alone, in the order of micro-batches.
  void Deposit(int32_t rank, int64_t step, int32_t parameter,
               std::span<const float> gradient);

  // `rank` has deposited all of `step`. Steps end in order on every rank.
  absl::Status EndBackward(int32_t rank, int64_t step);

  // Between `values` and the unsharded optimizer's parameter, after the same
  // number of steps; added to `difference`.
  void Compare(int32_t parameter, std::span<const float> values,
               VerifyDifference& difference) const;

 private:
  // Of one step: by rank and parameter, summed over micro-batches.
  struct StepGradients {
    std::vector<std::vector<std::vector<float>>> sums;
    int32_t ranks_done = 0;
  };

  Verifier(Runtime& runtime, VerifySetup setup, UnshardedOptimizer optimizer);
  StepGradients& OfStep(int64_t step);
  absl::Status TakeStep(const StepGradients& gradients);

  const VerifySetup setup_;
  const std::unique_ptr<Mutex> mutex_;
  // Guarded by `mutex_`.
  std::map<int64_t, StepGradients> steps_;
  UnshardedOptimizer optimizer_;
  absl::Status status_;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_VERIFY_H_
