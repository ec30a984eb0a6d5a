#include <algorithm>

#include "optimizer/compute/newton_schulz.h"

namespace muonshard {
namespace {

// In products of [m, m] by [m, n], and of [m, m] by [m, m].
struct ProductCounts {
  int64_t wide = 0;
  int64_t square = 0;
};

ProductCounts CountProducts(const MuonOptions& options) {
  ProductCounts counts;
  if (PreScalingOf(options) == PreScaling::kAol) ++counts.wide;
  const int64_t steps = NewtonSchulzSteps(options);
  const bool gram = options.iteration == NewtonSchulzIteration::kGram;
  // The standard iteration has as many products as Gram runs of one step.
  const int64_t run_steps =
      gram ? std::min<int64_t>(steps, options.gram_restart_interval) : 1;
  for (int64_t done = 0; done < steps; done += run_steps) {
    const int64_t run = std::min(run_steps, steps - done);
    counts.wide += 2;
    counts.square += 4 * run - 3;
  }
  return counts;
}

template <typename Number>
Number CountFlops(int64_t rows, int64_t cols, const MuonOptions& options) {
  const ProductCounts counts = CountProducts(options);
  const Number m = static_cast<Number>(std::min(rows, cols));
  const Number n = static_cast<Number>(std::max(rows, cols));
  return 2 * m * m *
         (static_cast<Number>(counts.wide) * n +
          static_cast<Number>(counts.square) * m);
}

}  // namespace

int64_t NewtonSchulzFlops(int64_t rows, int64_t cols,
                          const MuonOptions& options) {
  return CountFlops<int64_t>(rows, cols, options);
}

double ApproximateNewtonSchulzFlops(int64_t rows, int64_t cols,
                                    const MuonOptions& options) {
  return CountFlops<double>(rows, cols, options);
}

}  // namespace muonshard
