// The whole optimizer in fp64 and plain loops: a second statement of the
// formulas, which shares no code with the optimizer. Tests hold results of the
// optimizer against it, within bounds that they derive.
//
// Numerics   fp64 throughout; nothing is rounded to the type of a parameter or
//            of a gradient.
// Cost       Plain loops: for small parameters.

#ifndef TESTING_REFERENCE_OPTIMIZER_H_
#define TESTING_REFERENCE_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/step_options.h"

namespace muonshard::testing {

// The Newton-Schulz iteration of `x` [rows, cols], row-major.
std::vector<double> ReferenceNewtonSchulz(std::vector<double> x, int64_t rows,
                                          int64_t cols,
                                          const MuonOptions& options);

// sum_i (a_i - b_i)^2 / sum_i b_i^2, under a square root: the Frobenius norm
// of the difference, relative to that of `b`.
double RelativeDifference(const std::vector<double>& a,
                          const std::vector<double>& b);

// One parameter's gradients of one step: [rank][micro-batch][element]. A rank
// without micro-batches has no gradient.
using ReferenceGradients = std::vector<std::vector<std::vector<double>>>;

struct ReferenceOutcome {
  bool updated = false;
  double gradient_norm = 0;  // Of all gradients, before clipping.
};

class ReferenceOptimizer {
 public:
  // One divisor and one vector of values per spec.
  ReferenceOptimizer(std::vector<ParameterSpec> specs, OptimizerOptions options,
                     std::vector<int64_t> divisors,
                     std::vector<std::vector<double>> parameters);

  // Sums each parameter's gradients, divides by its divisor and the loss scale,
  // clips by the global norm if `clip_norm` > 0, and updates. Non-finite
  // gradients change nothing. kFailedPrecondition names a parameter whose
  // gradient is absent and must not be.
  absl::StatusOr<ReferenceOutcome> Step(
      const std::vector<ReferenceGradients>& gradients,
      const StepOptions& options);
  absl::StatusOr<ReferenceOutcome> Step(
      const std::vector<ReferenceGradients>& gradients, double clip_norm) {
    return Step(gradients, StepOptions{.clip_norm = clip_norm});
  }

  const std::vector<double>& parameter(size_t index) const {
    return parameters_[index].values;
  }

 private:
  struct Parameter {
    std::vector<double> values;
    std::vector<double> first;  // Momentum, or the first moment.
    // The second moment, or at its front the moments of neurons.
    std::vector<double> second;
    int64_t steps = 0;
  };

  void UpdateMuon(const ParameterSpec& spec, double rate,
                  const std::vector<double>& gradient, Parameter& parameter);
  void UpdateAdamW(const ParameterSpec& spec, double rate,
                   const std::vector<double>& gradient, Parameter& parameter);

  std::vector<ParameterSpec> specs_;
  OptimizerOptions options_;
  std::vector<int64_t> divisors_;
  std::vector<Parameter> parameters_;
};

}  // namespace muonshard::testing

#endif  // TESTING_REFERENCE_OPTIMIZER_H_
