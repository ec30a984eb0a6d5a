// The optimizer on one process and whole parameters: what a sharded run must
// equal, bit for bit.
//
// It shares the mathematics with the sharded optimizer (optimizer/compute), and
// neither plan, buckets, reducer nor collectives. A trainer that verifies
// itself feeds it every rank's own gradients.
//
// Numerics   Gradients are folded as gradient_fold.h says. The norm is that of
//            gradient_norm.h over the reduced gradients of all parameters. A
//            narrow parameter with master weights is its f32 master, rounded to
//            nearest even.
// Threads    Like an int.
// Errors     kInvalidArgument     a spec, option or argument is wrong
//            kFailedPrecondition  a gradient is absent and must not be, or the
//                                 loss scale does not fit the gradients
//            Messages name the parameter. After an error nothing has changed.

#ifndef OPTIMIZER_UNSHARDED_UNSHARDED_OPTIMIZER_H_
#define OPTIMIZER_UNSHARDED_UNSHARDED_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/data_type.h"
#include "optimizer/compute/update.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/step_options.h"
#include "optimizer/unsharded/gradient_fold.h"

namespace muonshard {

struct UnshardedStepInput {
  std::vector<LocalGradients> gradients;  // One per parameter.
  StepOptions options;
};

class UnshardedOptimizer {
 public:
  // `divisors` has one entry per spec, as in the plan; `parameters` holds the
  // first values, in the type of each spec.
  static absl::StatusOr<UnshardedOptimizer> Create(
      std::vector<ParameterSpec> specs, const OptimizerOptions& options,
      std::vector<int64_t> divisors,
      std::vector<std::vector<std::byte>> parameters);

  // Counts as a step unless it is an error.
  absl::StatusOr<StepOutcome> Step(const UnshardedStepInput& input);

  std::span<const std::byte> parameter(size_t index) const {
    return parameters_[index].values;
  }
  // Momentum, or AdamW's first moment.
  std::span<const float> first_moment(size_t index) const {
    return parameters_[index].first;
  }
  // Of a Muon parameter the moments of its rows, if they are normalized.
  std::span<const float> second_moment(size_t index) const {
    return parameters_[index].second;
  }
  // Of a narrow parameter with master weights, from its first update on.
  std::span<const float> master(size_t index) const {
    return parameters_[index].master;
  }
  // Steps that updated it.
  int64_t step_count(size_t index) const { return parameters_[index].steps; }

 private:
  using Bytes = std::vector<std::byte>;

  struct Parameter {
    ParameterSpec spec;
    int64_t divisor = 1;
    Bytes values;
    std::vector<float> first;
    std::vector<float> second;  // Or, unit by unit, moments of rows.
    std::vector<float> master;
    int64_t steps = 0;  // That updated it.
  };

  explicit UnshardedOptimizer(OptimizerOptions options);

  // One per parameter; empty for one that this step leaves alone.
  absl::StatusOr<std::vector<Bytes>> Reduce(
      const std::vector<LocalGradients>& gradients) const;

  // The step's options of one parameter, but for its step count.
  UpdateFactors FactorsOf(const ParameterSpec& spec, const StepOptions& options,
                          double gradient_factor) const;
  void Update(const Bytes& gradient, UpdateFactors factors,
              Parameter& parameter) const;
  // `values` are of type `dtype`.
  void UpdateMuon(const Bytes& gradient, const UpdateFactors& factors,
                  Parameter& parameter, DataType dtype,
                  std::byte* values) const;

  OptimizerOptions options_;
  std::vector<std::string> schedules_;
  std::vector<Parameter> parameters_;
  int64_t steps_ = 0;
};

}  // namespace muonshard

#endif  // OPTIMIZER_UNSHARDED_UNSHARDED_OPTIMIZER_H_
