// What a matrix is divided by before the iterations of
// optimizer/compute/newton_schulz.h, which states the formulas.

#ifndef OPTIMIZER_COMPUTE_PRE_SCALING_H_
#define OPTIMIZER_COMPUTE_PRE_SCALING_H_

#include <cstdint>
#include <span>

namespace muonshard {

// Copies `in` [rows, cols] to `out` [m, n], transposed where rows > cols, and
// divides it by max(its Frobenius norm, epsilon). Returns epsilon relative to
// that.
template <typename In, typename T>
double DivideByNorm(std::span<const In> in, int64_t rows, int64_t cols,
                    double epsilon, T* out);

// Scales the rows of `x` [m, n] by the rule kAol. `gram` [m, m] is scratch.
template <typename T>
void ScaleRowsByAol(int64_t m, int64_t n, double relative_epsilon, T* gram,
                    T* x);

}  // namespace muonshard

#endif  // OPTIMIZER_COMPUTE_PRE_SCALING_H_
