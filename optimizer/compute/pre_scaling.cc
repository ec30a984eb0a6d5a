#include "optimizer/compute/pre_scaling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "optimizer/compute/matrix_products.h"
#include "optimizer/muon_options.h"

namespace muonshard {
namespace {

// The exponents whose powers of two have normal reciprocals.
constexpr int kExponentMax = 1022;

// Of a power of two that brings the largest magnitude into [0.5, 1), or near
// it at the ends of f64; 0 for zero and for what is not finite.
template <typename In>
int ScaleExponent(std::span<const In> in) {
  In largest = 0;
  for (const In value : in) largest = std::max(largest, std::abs(value));
  int exponent = 0;
  if (largest > 0 && std::isfinite(largest)) std::frexp(largest, &exponent);
  return std::clamp(-exponent, -kExponentMax, kExponentMax);
}

// Writes `in` * `scale` in the order of `out`, square by square so that both
// sides stay in cache.
template <typename In, typename T>
void CopyScaled(std::span<const In> in, int64_t rows, int64_t cols,
                double scale, T* out) {
  const auto scaled = [&](int64_t i) {
    return static_cast<T>(double{in[static_cast<size_t>(i)]} * scale);
  };
  if (rows <= cols) {
    for (int64_t i = 0; i < rows * cols; ++i) out[i] = scaled(i);
    return;
  }
  constexpr int64_t kSide = 32;
  for (int64_t row = 0; row < rows; row += kSide) {
    const int64_t row_end = std::min(rows, row + kSide);
    for (int64_t col = 0; col < cols; col += kSide) {
      const int64_t col_end = std::min(cols, col + kSide);
      for (int64_t i = row; i < row_end; ++i) {
        for (int64_t j = col; j < col_end; ++j) {
          out[j * rows + i] = scaled(i * cols + j);
        }
      }
    }
  }
}

// Of values of at most about 1, whose squares in f64 do not overflow.
template <typename T>
double FrobeniusNorm(const T* x, int64_t count) {
  double sums[8] = {};
  for (int64_t i = 0; i < count; ++i) {
    sums[i % 8] += double{x[i]} * double{x[i]};
  }
  return std::sqrt(((sums[0] + sums[1]) + (sums[2] + sums[3])) +
                   ((sums[4] + sums[5]) + (sums[6] + sums[7])));
}

}  // namespace

template <typename In, typename T>
double DivideByNorm(std::span<const In> in, int64_t rows, int64_t cols,
                    double epsilon, T* out) {
  const int64_t count = rows * cols;
  const double scale = std::ldexp(1.0, ScaleExponent(in));
  CopyScaled(in, rows, cols, scale, out);
  const double scaled_epsilon = epsilon * scale;
  const double divisor = std::max(FrobeniusNorm(out, count), scaled_epsilon);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<T>(double{out[i]} / divisor);
  }
  return scaled_epsilon / divisor;
}

template <typename T>
void ScaleRowsByAol(int64_t m, int64_t n, double relative_epsilon, T* gram,
                    T* x) {
  // The least row whose square an f32 holds in full.
  const double floor = std::max(relative_epsilon, std::ldexp(1.0, -60));
  MultiplyByTranspose(m, n, x, gram);
  for (int64_t i = 0; i < m; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < m; ++j) sum += std::abs(double{gram[i * m + j]});
    const double factor = kAolSpectralNormMax / std::max(std::sqrt(sum), floor);
    for (int64_t j = 0; j < n; ++j) {
      x[i * n + j] = static_cast<T>(double{x[i * n + j]} * factor);
    }
  }
}

template double DivideByNorm<float, float>(std::span<const float>, int64_t,
                                           int64_t, double, float*);
template double DivideByNorm<float, double>(std::span<const float>, int64_t,
                                            int64_t, double, double*);
template double DivideByNorm<double, float>(std::span<const double>, int64_t,
                                            int64_t, double, float*);
template double DivideByNorm<double, double>(std::span<const double>, int64_t,
                                             int64_t, double, double*);
template void ScaleRowsByAol<float>(int64_t, int64_t, double, float*, float*);
template void ScaleRowsByAol<double>(int64_t, int64_t, double, double*,
                                     double*);

}  // namespace muonshard
