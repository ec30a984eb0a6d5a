// The optimizer on one process and whole parameters: what a sharded run must
// equal, bit for bit.
//
// It shares the mathematics with the sharded optimizer (optimizer/compute), and
// neither plan, buckets, reducer nor collectives. A trainer that verifies
// itself feeds it every rank's own gradients.
//
// Numerics   Gradients are folded as gradient_fold.h says. The norm is that of
//            gradient_norm.h over the reduced gradients of all parameters.
// Threads    Like an int.
// Errors     kInvalidArgument     a spec, option or argument is wrong
//            kFailedPrecondition  a gradient is absent and must not be
//            Messages name the parameter. After an error nothing has changed.

#ifndef OPTIMIZER_UNSHARDED_UNSHARDED_OPTIMIZER_H_
#define OPTIMIZER_UNSHARDED_UNSHARDED_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/unsharded/gradient_fold.h"

namespace muonshard {

struct UnshardedStepInput {
  std::vector<LocalGradients> gradients;  // One per parameter.
  double clip_norm = 0;                   // 0: no clipping.
  // Instead of those in OptimizerOptions.
  std::optional<double> muon_learning_rate;
  std::optional<double> adamw_learning_rate;
};

struct UnshardedStepOutcome {
  // False: a gradient was not finite, and nothing has changed.
  bool updated = false;
  int64_t non_finite_count = 0;
  double gradient_norm = 0;  // Before clipping; 0 if not updated.
  double clip_factor = 1;    // What the gradients were multiplied by.
};

class UnshardedOptimizer {
 public:
  // `divisors` has one entry per spec, as in the plan; `parameters` holds the
  // first values, in the type of each spec.
  static absl::StatusOr<UnshardedOptimizer> Create(
      std::vector<ParameterSpec> specs, const OptimizerOptions& options,
      std::vector<int64_t> divisors,
      std::vector<std::vector<std::byte>> parameters);

  absl::StatusOr<UnshardedStepOutcome> Step(const UnshardedStepInput& input);

  std::span<const std::byte> parameter(size_t index) const {
    return parameters_[index].values;
  }
  // Momentum, or AdamW's first moment.
  std::span<const float> first_moment(size_t index) const {
    return parameters_[index].first;
  }
  // Empty for a Muon parameter.
  std::span<const float> second_moment(size_t index) const {
    return parameters_[index].second;
  }

 private:
  using Bytes = std::vector<std::byte>;

  struct Parameter {
    ParameterSpec spec;
    int64_t divisor = 1;
    Bytes values;
    std::vector<float> first;
    std::vector<float> second;
    int64_t steps = 0;  // That updated it.
  };

  explicit UnshardedOptimizer(OptimizerOptions options);

  // One per parameter; empty for one that this step leaves alone.
  absl::StatusOr<std::vector<Bytes>> Reduce(
      const std::vector<LocalGradients>& gradients) const;

  static void UpdateMuon(const MuonOptions& options, const Bytes& gradient,
                         double clip_factor, Parameter& parameter);
  static void UpdateAdamW(const AdamWOptions& options, const Bytes& gradient,
                          double clip_factor, Parameter& parameter);

  OptimizerOptions options_;
  std::vector<Parameter> parameters_;
};

}  // namespace muonshard

#endif  // OPTIMIZER_UNSHARDED_UNSHARDED_OPTIMIZER_H_
