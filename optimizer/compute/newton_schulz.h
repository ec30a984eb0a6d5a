// The nearly orthogonal factor of a matrix, by a quintic Newton-Schulz
// iteration on host memory.
//
// Shapes     x and out are [rows, cols], row-major, contiguous, and may be the
//            same buffer. workspace holds NewtonSchulzWorkspaceCount floats
//            and need not be initialized.
// Result     x is divided by max(its Frobenius norm, epsilon), then each step
// is
//            X <- a X + (b A + c A A) X with A = X X^T, on the transpose when
//            rows > cols. Zero in gives zero out. Products are f32; the norm
//            and the division by it are f64, where no square of an f32
//            overflows or vanishes, so inputs of any scale are safe.
// Numerics   The bits of out depend on shape, x, coefficients and epsilon
//            alone: matrices are copied into aligned workspace first, and
//            products run on one thread.
// Cost       4 m m n + 2 m m m flops a step, m = min(rows, cols), n the other.
// Threads    Safe to call at once on buffers that do not overlap.

#ifndef OPTIMIZER_COMPUTE_NEWTON_SCHULZ_H_
#define OPTIMIZER_COMPUTE_NEWTON_SCHULZ_H_

#include <cstdint>
#include <span>

#include "optimizer/muon_options.h"

namespace muonshard {

// In floats.
int64_t NewtonSchulzWorkspaceCount(int64_t rows, int64_t cols,
                                   const MuonOptions& options);

// In floating-point operations, of the standard iteration.
int64_t NewtonSchulzFlops(int64_t rows, int64_t cols,
                          const MuonOptions& options);

// Takes the coefficients, their number of steps and `epsilon`.
void NewtonSchulz(std::span<const float> x, int64_t rows, int64_t cols,
                  const MuonOptions& options, std::span<float> workspace,
                  std::span<float> out);

}  // namespace muonshard

#endif  // OPTIMIZER_COMPUTE_NEWTON_SCHULZ_H_
