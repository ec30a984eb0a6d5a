// A few steps of a few parameters, in f32 and in fp64: what a test changes one
// hyper-parameter of.

#ifndef TESTING_SHORT_EXPERIMENT_H_
#define TESTING_SHORT_EXPERIMENT_H_

#include <cstddef>
#include <vector>

#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"

namespace muonshard::testing {

// What is optimized, and how.
struct Experiment {
  std::vector<ParameterSpec> specs;
  OptimizerOptions options;
};

// Two matrices, one wide and one tall, and a vector.
Experiment ShortExperiment();

// The parameters after three steps, with gradients and first values that are
// the same in each call.
using Values = std::vector<std::vector<double>>;

// Of the optimizer, unsharded.
Values Optimize(const Experiment& experiment);
// Of the fp64 reference.
Values OptimizeInFp64(const Experiment& experiment);

double Distance(const std::vector<double>& a, const std::vector<double>& b);
// Of the parameter that differs the most.
double LargestDistance(const Values& a, const Values& b);

// How far parameter `p` may be from fp64 after all steps. A step rounds weights
// of up to some 2 four times. Muon: some 16 roundings u stand before the
// iteration, which multiplies them and its own by at most a_1 ... a_T; sums of
// m rows make sqrt(m) of it, and Gram's polynomials 16 times that. Normalized
// rows have twice the relative error, of rows whose sizes differ less than
// four-fold. AdamW: 32 roundings of values up to 1 are divided by epsilon.
double Bound(const Experiment& experiment, size_t p);

}  // namespace muonshard::testing

#endif  // TESTING_SHORT_EXPERIMENT_H_
