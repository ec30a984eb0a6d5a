#include "optimizer/compute/newton_schulz_steps.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "optimizer/compute/matrix_products.h"

namespace muonshard {
namespace {

template <typename T>
void Round(DataType dtype, T* values, int64_t count) {
  RoundTo(dtype, std::span<T>(values, static_cast<size_t>(count)));
}

// z <- x y + beta_of x: one product with the matrix y + beta I.
template <typename T>
void MultiplyShifted(DataType dtype, int64_t m, int64_t n, int64_t k,
                     const T* x, const T* y, double beta, const T* shifted,
                     T* z) {
  std::copy_n(shifted, m * n, z);
  Multiply(m, n, k, 1, x, y, beta, z);
  Round(dtype, z, m * n);
}

// polynomial <- b gram + c gram gram.
template <typename T>
void Polynomial(DataType dtype, const NewtonSchulzCoefficients& step, int64_t m,
                const T* gram, T* polynomial) {
  std::copy_n(gram, m * m, polynomial);
  Multiply(m, m, m, step.c, gram, gram, step.b, polynomial);
  Round(dtype, polynomial, m * m);
}

// What a run of steps between two restarts multiplies the matrix by:
// factor I + rest. The identity is kept apart, so that rounding is relative to
// what the steps add to it.
template <typename T>
struct Product {
  double factor = 1;
  T* rest = nullptr;
};

// product <- product (a I + polynomial), which commute.
template <typename T>
void Append(DataType dtype, int64_t m, double a, const T* polynomial,
            Product<T>& product, T*& spare) {
  const T factor = static_cast<T>(product.factor);
  const T a_of_step = static_cast<T>(a);
  for (int64_t i = 0; i < m * m; ++i) {
    spare[i] = factor * polynomial[i] + a_of_step * product.rest[i];
  }
  Multiply(m, m, m, 1, product.rest, polynomial, 1, spare);
  Round(dtype, spare, m * m);
  product.factor *= a;
  std::swap(product.rest, spare);
}

}  // namespace

template <typename T>
T* RunStandard(std::span<const NewtonSchulzCoefficients> steps, DataType dtype,
               IterationBuffers<T> buffers) {
  const int64_t m = buffers.m;
  const int64_t n = buffers.n;
  T* const gram = buffers.squares[0];
  T* const polynomial = buffers.squares[1];
  for (const NewtonSchulzCoefficients& step : steps) {
    MultiplyByTranspose(m, n, buffers.current, gram);
    Round(dtype, gram, m * m);
    Polynomial(dtype, step, m, gram, polynomial);
    MultiplyShifted(dtype, m, n, m, polynomial, buffers.current, step.a,
                    buffers.current, buffers.next);
    std::swap(buffers.current, buffers.next);
  }
  return buffers.current;
}

template <typename T>
T* RunGram(std::span<const NewtonSchulzCoefficients> steps,
           int32_t restart_interval, DataType dtype,
           IterationBuffers<T> buffers) {
  const int64_t m = buffers.m;
  const int64_t n = buffers.n;
  T* const gram = buffers.squares[0];
  T* polynomial = buffers.squares[1];
  T* spare = buffers.squares[2];
  Product<T> product = {.rest = buffers.squares[3]};
  while (!steps.empty()) {
    const auto run = steps.first(
        std::min(steps.size(), static_cast<size_t>(restart_interval)));
    steps = steps.subspan(run.size());
    MultiplyByTranspose(m, n, buffers.current, gram);
    Round(dtype, gram, m * m);
    for (size_t i = 0; i < run.size(); ++i) {
      const double a = run[i].a;
      Polynomial(dtype, run[i], m, gram, polynomial);
      if (i + 1 < run.size()) {
        // gram <- (a I + polynomial) gram (a I + polynomial).
        MultiplyShifted(dtype, m, m, m, gram, polynomial, a, gram, spare);
        MultiplyShifted(dtype, m, m, m, polynomial, spare, a, spare, gram);
      }
      if (i == 0) {
        product.factor = a;
        std::swap(product.rest, polynomial);
      } else {
        Append(dtype, m, a, polynomial, product, spare);
      }
    }
    MultiplyShifted(dtype, m, n, m, product.rest, buffers.current,
                    product.factor, buffers.current, buffers.next);
    std::swap(buffers.current, buffers.next);
  }
  return buffers.current;
}

template float* RunStandard<float>(std::span<const NewtonSchulzCoefficients>,
                                   DataType, IterationBuffers<float>);
template double* RunStandard<double>(std::span<const NewtonSchulzCoefficients>,
                                     DataType, IterationBuffers<double>);
template float* RunGram<float>(std::span<const NewtonSchulzCoefficients>,
                               int32_t, DataType, IterationBuffers<float>);
template double* RunGram<double>(std::span<const NewtonSchulzCoefficients>,
                                 int32_t, DataType, IterationBuffers<double>);

}  // namespace muonshard
