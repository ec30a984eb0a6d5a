#include "optimizer/compute/matrix_products.h"

#include <algorithm>
#include <cstddef>

#include "openblas-pthread/cblas.h"
#include "optimizer/compute/convert.h"

namespace muonshard {
namespace {

// Ranks are the parallelism, and the number of threads changes the bits of a
// product: OpenBLAS runs on the calling thread from the first product on.
void UseOneThread() {
  static const bool kDone = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(kDone);
}

struct Strides {
  int64_t x = 0;
  int64_t y = 0;
  int64_t z = 0;
};

void Gemm(CBLAS_TRANSPOSE transpose_y, int64_t m, int64_t n, int64_t k,
          double alpha, const float* x, const float* y, double beta, float* z,
          const Strides& strides) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, transpose_y, static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k),
              static_cast<float>(alpha), x, static_cast<blasint>(strides.x), y,
              static_cast<blasint>(strides.y), static_cast<float>(beta), z,
              static_cast<blasint>(strides.z));
}

void Gemm(CBLAS_TRANSPOSE transpose_y, int64_t m, int64_t n, int64_t k,
          double alpha, const double* x, const double* y, double beta,
          double* z, const Strides& strides) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, transpose_y, static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k), alpha, x,
              static_cast<blasint>(strides.x), y,
              static_cast<blasint>(strides.y), beta, z,
              static_cast<blasint>(strides.z));
}

}  // namespace

template <typename T>
void Multiply(int64_t m, int64_t n, int64_t k, double alpha, const T* x,
              const T* y, double beta, T* z) {
  UseOneThread();
  Gemm(CblasNoTrans, m, n, k, alpha, x, y, beta, z, {.x = k, .y = n, .z = n});
}

template <typename T>
void MultiplyByTranspose(int64_t m, int64_t n, const T* x, T* z) {
  UseOneThread();
  Gemm(CblasTrans, m, m, n, 1, x, x, 0, z, {.x = n, .y = n, .z = m});
}

template void Multiply<float>(int64_t, int64_t, int64_t, double, const float*,
                              const float*, double, float*);
template void Multiply<double>(int64_t, int64_t, int64_t, double, const double*,
                               const double*, double, double*);
template void MultiplyByTranspose<float>(int64_t, int64_t, const float*,
                                         float*);
template void MultiplyByTranspose<double>(int64_t, int64_t, const double*,
                                          double*);

void RoundTo(DataType dtype, std::span<float> values) {
  if (dtype != DataType::kF16 && dtype != DataType::kBF16) return;
  constexpr size_t kTileCount = 1024;
  uint16_t tile[kTileCount];
  while (!values.empty()) {
    const std::span<float> part =
        values.first(std::min(kTileCount, values.size()));
    FromFloat(dtype, part, tile);
    ToFloat(dtype, tile, part);
    values = values.subspan(part.size());
  }
}

void RoundTo(DataType, std::span<double>) {}

}  // namespace muonshard
