// The nearly orthogonal factor of a matrix, by a Newton-Schulz iteration on
// host memory.
//
// In this file
//   m, n       the smaller and the larger of rows and cols; all is said of the
//              matrix X as [m, n], so of its transpose when rows > cols
//   type       options.newton_schulz_dtype
//
// Shapes     x and out are [rows, cols], row-major, contiguous, and may be the
//            same buffer. workspace holds NewtonSchulzWorkspaceCount floats and
//            need not be initialized.
// Result     First X is divided by N = max(its Frobenius norm, epsilon). With
//            kAol, row i is then multiplied by
//              kAolSpectralNormMax / max(sqrt(sum_j |X X^T|_ij), epsilon / N,
//                                        2^-60),
//            which keeps singular values at most kAolSpectralNormMax: by
//            Prach and Lampert (arXiv 2208.03160, theorem 1), S X with
//            S_ii = (sum_j |X X^T|_ij)^(-1/2) has a spectral norm of at most 1.
//            Turbo-Muon (arXiv 2512.04632) puts it before Newton-Schulz.
//            Then each step is
//              kStandard  X <- a X + (b A + c A A) X, A = X X^T
//              kGram      Q <- Q (a I + Z), Z = b R + c R R,
//                         R <- (a I + Z) R (a I + Z), with R = X X^T, Q = I at
//                         the start and after every gram_restart_interval
//                         steps, before which X <- Q X. Runs of one step have
//                         the bits of kStandard.
//            Zero in gives zero out.
// Numerics   X is scaled by a power of two first, then its norm is summed and
//            divided by in f64: inputs of any scale are safe in every type, and
//            powers of two change no bit while the norm exceeds epsilon.
//            bf16 and f16: X is rounded to the type after pre-scaling, and the
//            result of every product, together with what is added to it, once;
//            sums are f32. f32 and f64 products sum in their own type. In Q,
//            the identity times the product of all a is kept apart, exact.
//            The bits of out depend on shape, options and x alone: matrices are
//            copied into aligned workspace first, and products run on one
//            thread.
// Cost       NewtonSchulzFlops, nearly all in products of matrices.
// Threads    Safe to call at once on buffers that do not overlap.

#ifndef OPTIMIZER_COMPUTE_NEWTON_SCHULZ_H_
#define OPTIMIZER_COMPUTE_NEWTON_SCHULZ_H_

#include <cstdint>
#include <span>

#include "optimizer/muon_options.h"

namespace muonshard {

// In floats, of type f64 too.
int64_t NewtonSchulzWorkspaceCount(int64_t rows, int64_t cols,
                                   const MuonOptions& options);

// The floating-point operations of all products, a multiplication and an
// addition being two. A standard step has 4 m m n + 2 m m m. A run of k Gram
// steps between restarts has 4 m m n + (8 k - 6) m m m. kAol adds 2 m m n.
int64_t NewtonSchulzFlops(int64_t rows, int64_t cols,
                          const MuonOptions& options);

// The same, of matrices for which int64_t could not hold it.
double ApproximateNewtonSchulzFlops(int64_t rows, int64_t cols,
                                    const MuonOptions& options);

// Takes what `options` says of the iteration, and `epsilon`.
void NewtonSchulz(std::span<const float> x, int64_t rows, int64_t cols,
                  const MuonOptions& options, std::span<float> workspace,
                  std::span<float> out);
void NewtonSchulz(std::span<const double> x, int64_t rows, int64_t cols,
                  const MuonOptions& options, std::span<float> workspace,
                  std::span<double> out);

}  // namespace muonshard

#endif  // OPTIMIZER_COMPUTE_NEWTON_SCHULZ_H_
