#include "optimizer/compute/gradient_norm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "optimizer/compute/convert.h"

namespace muonshard {

int64_t AddSquares(DataType type, const void* gradients, int64_t count,
                   ExactSum& squares) {
  constexpr int64_t kChunk = int64_t{kSquaresChunkCount};
  const auto* bytes = static_cast<const std::byte*>(gradients);
  float values[kSquaresChunkCount];
  int64_t non_finite = 0;
  for (int64_t start = 0; start < count; start += kChunk) {
    const int64_t chunk_count = std::min(kChunk, count - start);
    const std::byte* chunk =
        bytes + static_cast<size_t>(start) * ByteWidth(type);
    const std::span<float> chunk_values(values,
                                        static_cast<size_t>(chunk_count));
    ToFloat(type, chunk, chunk_values);
    const double sum = ChunkSumOfSquares(chunk_values);
    if (std::isfinite(sum)) {
      squares.Add(sum);
    } else {
      non_finite += CountNonFinite(type, chunk, chunk_count);
    }
  }
  return non_finite;
}

double GlobalNorm(const ExactSum& squares, double loss_scale) {
  return std::sqrt(squares.Value()) / loss_scale;
}

double ClipFactor(double norm, double clip_norm) {
  constexpr double kNormFloor = 1e-6;
  if (clip_norm == 0) return 1;
  return std::min(1.0, clip_norm / (norm + kNormFloor));
}

double GradientFactor(double clip_factor, double loss_scale) {
  return clip_factor / loss_scale;
}

bool GradientFactorFits(double norm, double clip_factor, double loss_scale) {
  // Half of what f32 holds, so that roundings do not matter; no element is
  // larger than the norm.
  constexpr double kLargestNorm = 0x1p127;
  // The reciprocal of any loss scale is larger, and f32 keeps 20 bits of it.
  constexpr double kLeastFactor = 0x1p-129;
  if (loss_scale == 1) return true;
  const double factor = GradientFactor(clip_factor, loss_scale);
  return factor >= kLeastFactor &&
         (factor <= 1 || norm * clip_factor <= kLargestNorm);
}

}  // namespace muonshard
