#include "testing/pipeline/small_mlp.h"

#include <cstddef>

#include "testing/seeded_random.h"

namespace muonshard::testing {
namespace {

constexpr size_t kWidth = kMlpWidth;
constexpr size_t kWords = kMlpWords;
constexpr size_t kRows = kMlpRows;

}  // namespace

MlpBatch MakeMlpBatch(uint64_t seed, int32_t data_rank, int64_t step,
                      int32_t micro_batch) {
  SeededRandom random(seed);
  random.Mix(static_cast<uint64_t>(data_rank));
  random.Mix(static_cast<uint64_t>(step));
  random.Mix(static_cast<uint64_t>(micro_batch));
  MlpBatch batch;
  for (size_t row = 0; row < kRows; ++row) {
    batch.words.push_back(static_cast<int32_t>(random.Below(kWords)));
  }
  for (size_t i = 0; i < kRows * kWords; ++i) {
    batch.target.push_back(random.Between(-1.0f, 1.0f));
  }
  return batch;
}

Activations Embed(const MlpBatch& batch, std::span<const float> embedding) {
  Activations x;
  for (const int32_t word : batch.words) {
    const auto row =
        embedding.subspan(static_cast<size_t>(word) * kWidth, kWidth);
    x.insert(x.end(), row.begin(), row.end());
  }
  return x;
}

std::vector<float> EmbedGradient(const MlpBatch& batch,
                                 const Activations& x_gradient) {
  std::vector<float> gradient(kWords * kWidth, 0.0f);
  for (size_t row = 0; row < kRows; ++row) {
    const auto word = static_cast<size_t>(batch.words[row]);
    for (size_t j = 0; j < kWidth; ++j) {
      gradient[word * kWidth + j] += x_gradient[row * kWidth + j];
    }
  }
  return gradient;
}

Activations LayerForward(const Activations& x, std::span<const float> weight,
                         std::span<const float> bias) {
  Activations y(x.size());
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t i = 0; i < kWidth; ++i) {
      float z = bias[i];
      for (size_t j = 0; j < kWidth; ++j) {
        z += weight[i * kWidth + j] * x[row * kWidth + j];
      }
      y[row * kWidth + i] = x[row * kWidth + i] + (z > 0 ? z : 0);
    }
  }
  return y;
}

LayerGradients LayerBackward(const Activations& x, const Activations& y,
                             const Activations& y_gradient,
                             std::span<const float> weight) {
  LayerGradients result{.x = y_gradient,
                        .weight = std::vector<float>(kWidth * kWidth, 0.0f),
                        .bias = std::vector<float>(kWidth, 0.0f)};
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t i = 0; i < kWidth; ++i) {
      const size_t at = row * kWidth + i;
      // What the relu let through is what was added to x.
      if (y[at] == x[at]) continue;
      result.bias[i] += y_gradient[at];
      for (size_t j = 0; j < kWidth; ++j) {
        result.weight[i * kWidth + j] += y_gradient[at] * x[row * kWidth + j];
        result.x[row * kWidth + j] += y_gradient[at] * weight[i * kWidth + j];
      }
    }
  }
  return result;
}

HeadGradients HeadBackward(const MlpBatch& batch, const Activations& x,
                           std::span<const float> embedding,
                           std::span<const float> bias, float loss_weight) {
  HeadGradients result{.x = Activations(x.size(), 0.0f),
                       .embedding = std::vector<float>(kWords * kWidth, 0.0f),
                       .bias = std::vector<float>(kWords, 0.0f)};
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t word = 0; word < kWords; ++word) {
      float difference = bias[word] - batch.target[row * kWords + word];
      for (size_t j = 0; j < kWidth; ++j) {
        difference += embedding[word * kWidth + j] * x[row * kWidth + j];
      }
      result.loss += difference * difference / 2 * loss_weight;
      const float gradient = difference * loss_weight;
      result.bias[word] += gradient;
      for (size_t j = 0; j < kWidth; ++j) {
        result.embedding[word * kWidth + j] += gradient * x[row * kWidth + j];
        result.x[row * kWidth + j] += gradient * embedding[word * kWidth + j];
      }
    }
  }
  return result;
}

}  // namespace muonshard::testing
