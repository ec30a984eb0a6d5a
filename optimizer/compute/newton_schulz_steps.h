// The two iterations of optimizer/compute/newton_schulz.h, on buffers that
// their caller has laid out. T is float or double.

#ifndef OPTIMIZER_COMPUTE_NEWTON_SCHULZ_STEPS_H_
#define OPTIMIZER_COMPUTE_NEWTON_SCHULZ_STEPS_H_

#include <cstdint>
#include <span>

#include "collectives/data_type.h"
#include "optimizer/newton_schulz_set.h"

namespace muonshard {

// The most m x m matrices that an iteration needs.
inline constexpr int64_t kStandardSquares = 2;
inline constexpr int64_t kGramSquares = 4;

template <typename T>
struct IterationBuffers {
  int64_t m = 0;  // Rows, at most n.
  int64_t n = 0;
  T* current = nullptr;  // The matrix, [m, n], rounded to the products' type.
  T* next = nullptr;     // [m, n]
  T* squares[kGramSquares] = {};  // As many as the iteration needs, [m, m].
};

// Both return where the result is: at `current` or at `next`.
template <typename T>
T* RunStandard(std::span<const NewtonSchulzCoefficients> steps, DataType dtype,
               IterationBuffers<T> buffers);

// Restarts after every `restart_interval` steps.
template <typename T>
T* RunGram(std::span<const NewtonSchulzCoefficients> steps,
           int32_t restart_interval, DataType dtype,
           IterationBuffers<T> buffers);

}  // namespace muonshard

#endif  // OPTIMIZER_COMPUTE_NEWTON_SCHULZ_STEPS_H_
