// Products of row-major matrices, and their rounding, for the iterations of
// optimizer/compute/newton_schulz.h. T is float or double.
//
// Numerics   The bits of a product depend on shapes, values and alignment:
//            matrices of one shape at equally aligned places have equal bits.
//            Products run on the calling thread, one at a time.
// Threads    Safe to call at once on buffers that do not overlap.

#ifndef OPTIMIZER_COMPUTE_MATRIX_PRODUCTS_H_
#define OPTIMIZER_COMPUTE_MATRIX_PRODUCTS_H_

#include <cstdint>
#include <span>

#include "collectives/data_type.h"

namespace muonshard {

// z <- alpha x y + beta z, with x [m, k], y [k, n] and z [m, n].
template <typename T>
void Multiply(int64_t m, int64_t n, int64_t k, double alpha, const T* x,
              const T* y, double beta, T* z);

// z <- x x^T, with x [m, n] and z [m, m].
template <typename T>
void MultiplyByTranspose(int64_t m, int64_t n, const T* x, T* z);

// Rounds each value to `dtype`, to nearest, ties to even. f32 and f64 leave
// floats and doubles as they are.
void RoundTo(DataType dtype, std::span<float> values);
void RoundTo(DataType dtype, std::span<double> values);

}  // namespace muonshard

#endif  // OPTIMIZER_COMPUTE_MATRIX_PRODUCTS_H_
