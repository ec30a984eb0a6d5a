// The parameters of a byte-level GPT: names, shapes, rules and first values.
//
// Pre-norm blocks of attention (Q, K and V in one matrix) and an MLP four times
// as wide as the model, learned positions, an untied head. Plain data: nothing
// here knows the library that computes gradients.
//
// In this file
//   width     features per position, W
//   context   positions per sequence
//
// Shapes     tokens and head [256, W]; positions [context, W]; per layer
//            attention.qkv [3 W, W], attention.projection [W, W], mlp.up
//            [4 W, W], mlp.down [W, 4 W]; vectors beside each.
// Result     The same specs and values on every rank and in every build.
// Errors     kInvalidArgument names the field, its range and what was got.

#ifndef TOOLS_TRAINER_GPT_PARAMETERS_H_
#define TOOLS_TRAINER_GPT_PARAMETERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "optimizer/parameter_spec.h"

namespace muonshard {

inline constexpr int64_t kByteVocabulary = 256;

struct ByteGptShape {
  int64_t width = 128;   // In [1, 4096]; a multiple of `heads`.
  int64_t layers = 4;    // In [1, 64].
  int64_t heads = 4;     // In [1, 64].
  int64_t context = 64;  // In [1, 4096].

  bool operator==(const ByteGptShape&) const = default;
};

absl::Status Validate(const ByteGptShape& shape);

// Indices into the parameter list, in order of first use in a forward.
struct GptLayerIndices {
  int32_t norm1_weight, norm1_bias;
  int32_t qkv_weight, qkv_bias;
  int32_t projection_weight, projection_bias;
  int32_t norm2_weight, norm2_bias;
  int32_t up_weight, up_bias;
  int32_t down_weight, down_bias;
};

struct GptIndices {
  int32_t tokens, positions;
  std::vector<GptLayerIndices> layers;
  int32_t norm_weight, norm_bias;
  int32_t head;
};

GptIndices IndicesOf(const ByteGptShape& shape);

// Hidden matrices have `matrix_rule`, all else kAdamW. Vectors and embeddings
// are not decayed.
std::vector<ParameterSpec> GptParameterSpecs(const ByteGptShape& shape,
                                             Rule matrix_rule);

// Normal values of deviation 0.02, the projections that end a residual branch
// smaller by sqrt(2 layers); vectors 0, but weights of norms 1. From `seed`
// alone.
std::vector<std::vector<float>> GptInitialValues(const ByteGptShape& shape,
                                                 uint64_t seed);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_GPT_PARAMETERS_H_
