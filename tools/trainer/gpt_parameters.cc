#include "tools/trainer/gpt_parameters.h"

#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tools/trainer/random_bits.h"

namespace muonshard {
namespace {

constexpr int32_t kParametersPerLayer = 12;
constexpr int32_t kParametersBeforeLayers = 2;
constexpr double kDeviation = 0.02;

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t last) {
  if (value >= 1 && value <= last) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model ", field, ": want a number in [1, ", last, "], got ", value));
}

ParameterSpec Matrix(std::string name, int64_t rows, int64_t cols, Rule rule) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = {rows, cols};
  spec.rule = rule;
  return spec;
}

ParameterSpec Embedding(std::string name, int64_t rows, int64_t cols) {
  ParameterSpec spec = Matrix(std::move(name), rows, cols, Rule::kAdamW);
  spec.weight_decay = false;
  return spec;
}

ParameterSpec Vector(std::string name, int64_t count) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = {count};
  spec.weight_decay = false;
  return spec;
}

void AppendLayer(int64_t layer, int64_t width, Rule rule,
                 std::vector<ParameterSpec>& specs) {
  const std::string prefix = absl::StrCat("layer", layer, ".");
  specs.push_back(Vector(prefix + "norm1.weight", width));
  specs.push_back(Vector(prefix + "norm1.bias", width));
  specs.push_back(
      Matrix(prefix + "attention.qkv.weight", 3 * width, width, rule));
  if (rule == Rule::kMuon) specs.back().blocks.sizes = {width, width, width};
  specs.push_back(Vector(prefix + "attention.qkv.bias", 3 * width));
  specs.push_back(
      Matrix(prefix + "attention.projection.weight", width, width, rule));
  specs.push_back(Vector(prefix + "attention.projection.bias", width));
  specs.push_back(Vector(prefix + "norm2.weight", width));
  specs.push_back(Vector(prefix + "norm2.bias", width));
  specs.push_back(Matrix(prefix + "mlp.up.weight", 4 * width, width, rule));
  specs.push_back(Vector(prefix + "mlp.up.bias", 4 * width));
  specs.push_back(Matrix(prefix + "mlp.down.weight", width, 4 * width, rule));
  specs.push_back(Vector(prefix + "mlp.down.bias", width));
}

void FillNormal(RandomBits& bits, double deviation,
                std::vector<float>& values) {
  // Box-Muller, in fp64 so that rounding to f32 hides the last bits in which
  // two math libraries may differ.
  for (float& value : values) {
    const double radius = std::sqrt(-2 * std::log(bits.Unit()));
    const double angle = 2 * std::numbers::pi * bits.Unit();
    value = static_cast<float>(deviation * radius * std::cos(angle));
  }
}

}  // namespace

absl::Status Validate(const ByteGptShape& shape) {
  if (absl::Status s = CheckRange("width", shape.width, 4096); !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckRange("layers", shape.layers, 64); !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckRange("heads", shape.heads, 64); !s.ok()) return s;
  if (absl::Status s = CheckRange("context", shape.context, 4096); !s.ok()) {
    return s;
  }
  if (shape.width % shape.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model width: want a multiple of ", shape.heads,
                     " heads, got ", shape.width));
  }
  return absl::OkStatus();
}

GptIndices IndicesOf(const ByteGptShape& shape) {
  GptIndices indices{.tokens = 0, .positions = 1};
  int32_t next = kParametersBeforeLayers;
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    indices.layers.push_back({next, next + 1, next + 2, next + 3, next + 4,
                              next + 5, next + 6, next + 7, next + 8, next + 9,
                              next + 10, next + 11});
    next += kParametersPerLayer;
  }
  indices.norm_weight = next;
  indices.norm_bias = next + 1;
  indices.head = next + 2;
  return indices;
}

std::vector<ParameterSpec> GptParameterSpecs(const ByteGptShape& shape,
                                             Rule matrix_rule) {
  std::vector<ParameterSpec> specs;
  specs.push_back(Embedding("tokens.weight", kByteVocabulary, shape.width));
  specs.push_back(Embedding("positions.weight", shape.context, shape.width));
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    AppendLayer(layer, shape.width, matrix_rule, specs);
  }
  specs.push_back(Vector("norm.weight", shape.width));
  specs.push_back(Vector("norm.bias", shape.width));
  specs.push_back(Embedding("head.weight", kByteVocabulary, shape.width));
  return specs;
}

std::vector<std::vector<float>> GptInitialValues(const ByteGptShape& shape,
                                                 uint64_t seed) {
  const std::vector<ParameterSpec> specs =
      GptParameterSpecs(shape, Rule::kAdamW);
  std::vector<std::vector<float>> values(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    values[i].resize(static_cast<size_t>(ElementCount(specs[i])));
    if (specs[i].shape.size() == 2) {
      RandomBits bits = RandomBits::Of({seed, i});
      FillNormal(bits, kDeviation, values[i]);
    }
  }
  const GptIndices indices = IndicesOf(shape);
  const auto at = [&](int32_t i) -> std::vector<float>& {
    return values[static_cast<size_t>(i)];
  };
  const auto fill_ones = [&](int32_t i) { at(i).assign(at(i).size(), 1.0f); };
  const auto residual_scale = static_cast<float>(
      1 / std::sqrt(2.0 * static_cast<double>(shape.layers)));
  for (const GptLayerIndices& layer : indices.layers) {
    fill_ones(layer.norm1_weight);
    fill_ones(layer.norm2_weight);
    for (float& value : at(layer.projection_weight)) value *= residual_scale;
    for (float& value : at(layer.down_weight)) value *= residual_scale;
  }
  fill_ones(indices.norm_weight);
  return values;
}

}  // namespace muonshard
