#include "optimizer/compute/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "openblas-pthread/cblas.h"

namespace muonshard {
namespace {

constexpr int64_t kAlignmentBytes = 64;
constexpr int64_t kAlignmentCount = kAlignmentBytes / int64_t{sizeof(float)};

int64_t RoundUp(int64_t count) {
  return (count + kAlignmentCount - 1) / kAlignmentCount * kAlignmentCount;
}

// The first aligned float at or after `pointer`.
float* Align(float* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const uintptr_t misalignment = address % kAlignmentBytes;
  if (misalignment == 0) return pointer;
  return pointer + (kAlignmentBytes - misalignment) / sizeof(float);
}

// Ranks are the parallelism, and the number of threads changes the bits of a
// product: OpenBLAS runs on the calling thread from the first product on.
void UseOneThread() {
  static const bool kDone = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(kDone);
}

// z <- alpha x y + beta z, with x [m, k], y [k, n] and z [m, n]; y is given as
// its transpose [n, k] where `transpose_y` says so.
void Multiply(CBLAS_TRANSPOSE transpose_y, int64_t m, int64_t n, int64_t k,
              double alpha, const float* x, const float* y, double beta,
              float* z) {
  const int64_t y_stride = transpose_y == CblasTrans ? k : n;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, transpose_y, static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k),
              static_cast<float>(alpha), x, static_cast<blasint>(k), y,
              static_cast<blasint>(y_stride), static_cast<float>(beta), z,
              static_cast<blasint>(n));
}

// Writes the transpose of `in` [rows, cols], square by square so that both
// sides stay in cache.
void Transpose(const float* in, int64_t rows, int64_t cols, float* out) {
  constexpr int64_t kSide = 32;
  for (int64_t row = 0; row < rows; row += kSide) {
    const int64_t row_end = std::min(rows, row + kSide);
    for (int64_t col = 0; col < cols; col += kSide) {
      const int64_t col_end = std::min(cols, col + kSide);
      for (int64_t i = row; i < row_end; ++i) {
        for (int64_t j = col; j < col_end; ++j) {
          out[j * rows + i] = in[i * cols + j];
        }
      }
    }
  }
}

// The squares of f32 values are exact in f64, and neither overflow nor vanish.
double FrobeniusNorm(std::span<const float> x) {
  double sums[8] = {};
  for (size_t i = 0; i < x.size(); ++i) {
    sums[i % 8] += double{x[i]} * double{x[i]};
  }
  return std::sqrt(((sums[0] + sums[1]) + (sums[2] + sums[3])) +
                   ((sums[4] + sums[5]) + (sums[6] + sums[7])));
}

}  // namespace

int64_t NewtonSchulzWorkspaceCount(int64_t rows, int64_t cols,
                                   const MuonOptions&) {
  const int64_t m = std::min(rows, cols);
  return 2 * RoundUp(rows * cols) + 2 * RoundUp(m * m) + kAlignmentCount;
}

int64_t NewtonSchulzFlops(int64_t rows, int64_t cols,
                          const MuonOptions& options) {
  const int64_t m = std::min(rows, cols);
  const int64_t n = std::max(rows, cols);
  return NewtonSchulzSteps(options) * (4 * m * m * n + 2 * m * m * m);
}

void NewtonSchulz(std::span<const float> x, int64_t rows, int64_t cols,
                  const MuonOptions& options, std::span<float> workspace,
                  std::span<float> out) {
  if (rows <= 0 || cols <= 0) return;
  UseOneThread();
  const bool tall = rows > cols;
  const int64_t m = std::min(rows, cols);
  const int64_t n = std::max(rows, cols);
  const size_t count = static_cast<size_t>(m * n);
  const size_t gram_bytes = static_cast<size_t>(m * m) * sizeof(float);
  float* current = Align(workspace.data());
  float* next = current + RoundUp(m * n);
  float* gram = next + RoundUp(m * n);
  float* polynomial = gram + RoundUp(m * m);

  if (tall) {
    Transpose(x.data(), rows, cols, current);
  } else {
    std::memcpy(current, x.data(), count * sizeof(float));
  }
  const double norm =
      std::max(FrobeniusNorm({current, count}), options.epsilon);
  for (size_t i = 0; i < count; ++i) {
    current[i] = static_cast<float>(double{current[i]} / norm);
  }

  for (const NewtonSchulzCoefficients& coefficients :
       StepCoefficients(options)) {
    Multiply(CblasTrans, m, m, n, 1, current, current, 0, gram);
    std::memcpy(polynomial, gram, gram_bytes);
    Multiply(CblasNoTrans, m, m, m, coefficients.c, gram, gram, coefficients.b,
             polynomial);
    std::memcpy(next, current, count * sizeof(float));
    Multiply(CblasNoTrans, m, n, m, 1, polynomial, current, coefficients.a,
             next);
    std::swap(current, next);
  }

  if (tall) {
    Transpose(current, cols, rows, out.data());
  } else {
    std::memcpy(out.data(), current, count * sizeof(float));
  }
}

}  // namespace muonshard
