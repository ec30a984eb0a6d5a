// A small model that can be cut into the stages of a pipeline: an embedding,
// residual layers, and a head tied to the embedding. Plain loops in f32 of a
// fixed order, so that the cut changes no bit.
//
// Shapes     x, y [rows, width]; weight [width, width]; bias [width];
//            embedding [words, width]; head_bias [words]
// Result     layer: y = x + relu(x weight^T + bias)
//            head:  loss = sum (x embedding^T + head_bias - target)^2 / 2,
//                   times `loss_weight`

#ifndef TESTING_PIPELINE_SMALL_MLP_H_
#define TESTING_PIPELINE_SMALL_MLP_H_

#include <cstdint>
#include <span>
#include <vector>

namespace muonshard::testing {

inline constexpr int32_t kMlpWidth = 6;
inline constexpr int32_t kMlpWords = 5;
inline constexpr int32_t kMlpRows = 3;

using Activations = std::vector<float>;  // [kMlpRows, kMlpWidth]

struct MlpBatch {
  std::vector<int32_t> words;  // By row.
  std::vector<float> target;   // [kMlpRows, kMlpWords]
};

// A pure function of its arguments.
MlpBatch MakeMlpBatch(uint64_t seed, int32_t data_rank, int64_t step,
                      int32_t micro_batch);

Activations Embed(const MlpBatch& batch, std::span<const float> embedding);
std::vector<float> EmbedGradient(const MlpBatch& batch,
                                 const Activations& x_gradient);

Activations LayerForward(const Activations& x, std::span<const float> weight,
                         std::span<const float> bias);
struct LayerGradients {
  Activations x;
  std::vector<float> weight;
  std::vector<float> bias;
};
LayerGradients LayerBackward(const Activations& x, const Activations& y,
                             const Activations& y_gradient,
                             std::span<const float> weight);

struct HeadGradients {
  float loss = 0;
  Activations x;
  std::vector<float> embedding;
  std::vector<float> bias;
};
HeadGradients HeadBackward(const MlpBatch& batch, const Activations& x,
                           std::span<const float> embedding,
                           std::span<const float> bias, float loss_weight);

}  // namespace muonshard::testing

#endif  // TESTING_PIPELINE_SMALL_MLP_H_
