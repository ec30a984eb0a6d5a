#include "optimizer/compute/row_normalization.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace muonshard {
namespace {

// Neurons are taken in tiles, so that columns are read along the rows of the
// matrix.
constexpr int64_t kTileCount = 128;

// Sums of the squares of `count` neurons from `first`.
void SumSquares(const NeuronBlock& block, int64_t first, int64_t count,
                double* squares) {
  std::fill_n(squares, count, 0.0);
  const float* matrix = block.matrix.data();
  if (block.fan_out_dimension == 0) {
    for (int64_t i = 0; i < count; ++i) {
      const float* row = matrix + (first + i) * block.cols;
      for (int64_t j = 0; j < block.cols; ++j) {
        squares[i] += double{row[j]} * double{row[j]};
      }
    }
    return;
  }
  for (int64_t row = 0; row < block.rows; ++row) {
    const float* begin = matrix + row * block.cols + first;
    for (int64_t i = 0; i < count; ++i) {
      squares[i] += double{begin[i]} * double{begin[i]};
    }
  }
}

// Multiplies each of `count` neurons from `first` by its factor.
void Multiply(const NeuronBlock& block, int64_t first, int64_t count,
              const float* factors) {
  float* matrix = block.matrix.data();
  if (block.fan_out_dimension == 0) {
    for (int64_t i = 0; i < count; ++i) {
      float* row = matrix + (first + i) * block.cols;
      for (int64_t j = 0; j < block.cols; ++j) row[j] *= factors[i];
    }
    return;
  }
  for (int64_t row = 0; row < block.rows; ++row) {
    float* begin = matrix + row * block.cols + first;
    for (int64_t i = 0; i < count; ++i) begin[i] *= factors[i];
  }
}

double Divisor(float moment, double epsilon) {
  return std::sqrt(double{moment}) + epsilon;
}

}  // namespace

void NormalizeRows(const NeuronBlock& block, double beta2, double epsilon,
                   std::span<float> moments) {
  const int64_t neuron_count = block.neuron_count();
  const double weight_count = static_cast<double>(block.weight_count());
  double before = 0;  // Squared norms.
  double after = 0;
  double squares[kTileCount];
  for (int64_t first = 0; first < neuron_count; first += kTileCount) {
    const int64_t count = std::min(kTileCount, neuron_count - first);
    SumSquares(block, first, count, squares);
    for (int64_t i = 0; i < count; ++i) {
      float& moment = moments[static_cast<size_t>(first + i)];
      moment = static_cast<float>(beta2 * double{moment} +
                                  (1 - beta2) * (squares[i] / weight_count));
      const double divisor = Divisor(moment, epsilon);
      before += squares[i];
      // The square of a small divisor may vanish.
      if (squares[i] > 0) after += squares[i] / divisor / divisor;
    }
  }
  if (after == 0) return;  // The matrix is zero.
  const double ratio = std::sqrt(before / after);
  float factors[kTileCount];
  for (int64_t first = 0; first < neuron_count; first += kTileCount) {
    const int64_t count = std::min(kTileCount, neuron_count - first);
    for (int64_t i = 0; i < count; ++i) {
      const double factor =
          ratio / Divisor(moments[static_cast<size_t>(first + i)], epsilon);
      // Of a neuron of zeros; they stay zeros if it is finite.
      factors[i] = static_cast<float>(
          std::min(factor, double{std::numeric_limits<float>::max()}));
    }
    Multiply(block, first, count, factors);
  }
}

}  // namespace muonshard
