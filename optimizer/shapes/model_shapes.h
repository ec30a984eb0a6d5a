// The parameters of well-known models, to plan and to measure with.
//
// In this file
//   linear weights are [out, in]; Q, K and V are one parameter of three blocks
//   of rows, gate and up one of two. Embeddings, heads, norms and biases are
//   element-wise.
//
//   experts are banks of matrices, and live apart over an axis named "ep"
//
// Result     f32 throughout and sharded over every axis, but for the experts of
//            a mesh with an axis "ep"; parameters in forward order.

#ifndef OPTIMIZER_SHAPES_MODEL_SHAPES_H_
#define OPTIMIZER_SHAPES_MODEL_SHAPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "optimizer/parameter_spec.h"
#include "topology/mesh.h"

namespace muonshard {

// A GPT with biases, LayerNorm, learned positions and a head tied to the
// embedding.
struct GptShape {
  int64_t layers = 0;
  int64_t width = 0;
  int64_t context = 0;
  int64_t vocabulary = 0;
};

std::vector<ParameterSpec> GptParameters(const GptShape& shape);

// GPT-2 small, 124 M elements.
std::vector<ParameterSpec> Gpt2Parameters124M();

// GPT-3 XL with the vocabulary of GPT-2, 1.3 G elements.
std::vector<ParameterSpec> GptParameters1300M();

// Llama 3 8B: 32 query heads and 8 key and value heads of 128, untied head.
std::vector<ParameterSpec> Llama3Parameters8B();

// DeepSeekMoE 16B: 28 layers, of which all but the first have 64 routed experts
// and two shared ones. Each rank has an even share of the experts over "ep",
// whose degree divides 64.
absl::StatusOr<std::vector<ParameterSpec>> DeepSeekMoeParameters16B(
    const Mesh& mesh);

// The names `ModelParameters` takes.
std::vector<std::string> ModelNames();

// kNotFound lists the names there are; kInvalidArgument says how the model does
// not fit the mesh.
absl::StatusOr<std::vector<ParameterSpec>> ModelParameters(
    absl::string_view name, const Mesh& mesh = Mesh());

}  // namespace muonshard

#endif  // OPTIMIZER_SHAPES_MODEL_SHAPES_H_
