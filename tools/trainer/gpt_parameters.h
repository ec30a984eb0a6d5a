// The parameters of a byte-level GPT: names, shapes, rules and first values.
//
// Pre-norm blocks of attention (Q, K and V in one matrix) and an MLP four times
// as wide as the model, learned positions, an untied head. With experts, each
// layer has several such MLPs without vectors, and a router that chooses one of
// them for each position. Plain data: nothing here knows the library that
// computes gradients.
//
// In this file
//   width     features per position, W
//   context   positions per sequence
//   experts   MLPs of a layer, E; 0: one dense MLP and no router
//   bank      the matrices of one kind of all experts of a layer
//
// Shapes     tokens and head [256, W]; positions [context, W]; per layer
//            attention.qkv [3 W, W], attention.projection [W, W], mlp.up
//            [4 W, W], mlp.down [W, 4 W]; vectors beside each. With experts
//            instead of the MLP: experts.router [E, W], the banks experts.up
//            [E, 4 W, W] and experts.down [E, W, 4 W].
// Result     The same specs and values on every rank and in every build.
// Errors     kInvalidArgument names the field, its range and what was got.

#ifndef TOOLS_TRAINER_GPT_PARAMETERS_H_
#define TOOLS_TRAINER_GPT_PARAMETERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "collectives/data_type.h"
#include "optimizer/parameter_spec.h"

namespace muonshard {

inline constexpr int64_t kByteVocabulary = 256;

struct ByteGptShape {
  int64_t width = 128;   // In [1, 4096]; a multiple of `heads`.
  int64_t layers = 4;    // In [1, 64].
  int64_t heads = 4;     // In [1, 64].
  int64_t context = 64;  // In [1, 4096].
  int64_t experts = 0;   // In [0, 256].

  bool operator==(const ByteGptShape&) const = default;
};

absl::Status Validate(const ByteGptShape& shape);

// Indices into the parameter list, in order of first use in a forward.
struct GptLayerIndices {
  int32_t norm1_weight = 0, norm1_bias = 0;
  int32_t qkv_weight = 0, qkv_bias = 0;
  int32_t projection_weight = 0, projection_bias = 0;
  int32_t norm2_weight = 0, norm2_bias = 0;
  // Without experts; else -1.
  int32_t up_weight = -1, up_bias = -1;
  int32_t down_weight = -1, down_bias = -1;
  // With experts; else -1.
  int32_t router = -1;
  int32_t expert_up = -1, expert_down = -1;
};

struct GptIndices {
  int32_t tokens = 0, positions = 0;
  std::vector<GptLayerIndices> layers;
  int32_t norm_weight = 0, norm_bias = 0;
  int32_t head = 0;
};

GptIndices IndicesOf(const ByteGptShape& shape);

// Hidden matrices have `matrix_rule`, all else kAdamW. Vectors, embeddings and
// routers are not decayed. Parameters and gradients are of type `precision`.
std::vector<ParameterSpec> GptParameterSpecs(
    const ByteGptShape& shape, Rule matrix_rule,
    DataType precision = DataType::kF32);

// Normal values of deviation 0.02, the projections that end a residual branch
// smaller by sqrt(2 layers); vectors 0, but weights of norms 1. From `seed`
// alone.
std::vector<std::vector<float>> GptInitialValues(const ByteGptShape& shape,
                                                 uint64_t seed);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_GPT_PARAMETERS_H_
