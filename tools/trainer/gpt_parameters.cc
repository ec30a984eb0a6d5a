#include "tools/trainer/gpt_parameters.h"

#include <cmath>
#include <initializer_list>
#include <numbers>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tools/trainer/random_bits.h"

namespace muonshard {
namespace {

constexpr double kDeviation = 0.02;

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t first,
                        int64_t last) {
  if (value >= first && value <= last) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model ", field,
                                                 ": want a number in [", first,
                                                 ", ", last, "], got ", value));
}

ParameterSpec Matrix(std::string name, int64_t rows, int64_t cols, Rule rule) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = {rows, cols};
  spec.rule = rule;
  return spec;
}

ParameterSpec Bank(std::string name, int64_t experts, int64_t rows,
                   int64_t cols, Rule rule) {
  ParameterSpec spec = Matrix(std::move(name), rows, cols, rule);
  spec.shape.insert(spec.shape.begin(), experts);
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

void AppendMlp(const std::string& prefix, int64_t width, Rule rule,
               std::vector<ParameterSpec>& specs) {
  specs.push_back(Matrix(prefix + "mlp.up.weight", 4 * width, width, rule));
  specs.push_back(Vector(prefix + "mlp.up.bias", 4 * width));
  specs.push_back(Matrix(prefix + "mlp.down.weight", width, 4 * width, rule));
  specs.push_back(Vector(prefix + "mlp.down.bias", width));
}

void AppendExperts(const std::string& prefix, const ByteGptShape& shape,
                   Rule rule, std::vector<ParameterSpec>& specs) {
  const int64_t width = shape.width;
  // A router's rows are classes, as an embedding's are.
  specs.push_back(
      Embedding(prefix + "experts.router.weight", shape.experts, width));
  specs.push_back(Bank(prefix + "experts.up.weight", shape.experts, 4 * width,
                       width, rule));
  specs.push_back(Bank(prefix + "experts.down.weight", shape.experts, width,
                       4 * width, rule));
}

void AppendLayer(int64_t layer, const ByteGptShape& shape, Rule rule,
                 std::vector<ParameterSpec>& specs) {
  const int64_t width = shape.width;
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
  if (shape.experts == 0) {
    AppendMlp(prefix, width, rule, specs);
  } else {
    AppendExperts(prefix, shape, rule, specs);
  }
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
  if (absl::Status s = CheckRange("width", shape.width, 1, 4096); !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckRange("layers", shape.layers, 1, 64); !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckRange("heads", shape.heads, 1, 64); !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckRange("context", shape.context, 1, 4096); !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckRange("experts", shape.experts, 0, 256); !s.ok()) {
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
  int32_t next = 0;
  GptIndices indices;
  const auto take = [&next](std::initializer_list<int32_t*> fields) {
    for (int32_t* field : fields) *field = next++;
  };
  take({&indices.tokens, &indices.positions});
  for (int64_t l = 0; l < shape.layers; ++l) {
    GptLayerIndices layer;
    take({&layer.norm1_weight, &layer.norm1_bias, &layer.qkv_weight,
          &layer.qkv_bias, &layer.projection_weight, &layer.projection_bias,
          &layer.norm2_weight, &layer.norm2_bias});
    if (shape.experts == 0) {
      take({&layer.up_weight, &layer.up_bias, &layer.down_weight,
            &layer.down_bias});
    } else {
      take({&layer.router, &layer.expert_up, &layer.expert_down});
    }
    indices.layers.push_back(layer);
  }
  take({&indices.norm_weight, &indices.norm_bias, &indices.head});
  return indices;
}

std::vector<ParameterSpec> GptParameterSpecs(const ByteGptShape& shape,
                                             Rule matrix_rule,
                                             DataType precision) {
  std::vector<ParameterSpec> specs;
  specs.push_back(Embedding("tokens.weight", kByteVocabulary, shape.width));
  specs.push_back(Embedding("positions.weight", shape.context, shape.width));
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    AppendLayer(layer, shape, matrix_rule, specs);
  }
  specs.push_back(Vector("norm.weight", shape.width));
  specs.push_back(Vector("norm.bias", shape.width));
  specs.push_back(Embedding("head.weight", kByteVocabulary, shape.width));
  for (ParameterSpec& spec : specs) {
    spec.dtype = precision;
    spec.gradient_dtype = precision;
  }
  return specs;
}

std::vector<std::vector<float>> GptInitialValues(const ByteGptShape& shape,
                                                 uint64_t seed) {
  const std::vector<ParameterSpec> specs =
      GptParameterSpecs(shape, Rule::kAdamW);
  std::vector<std::vector<float>> values(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    values[i].resize(static_cast<size_t>(ElementCount(specs[i])));
    if (specs[i].shape.size() >= 2) {
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
    const int32_t down =
        shape.experts == 0 ? layer.down_weight : layer.expert_down;
    for (float& value : at(down)) value *= residual_scale;
  }
  fill_ones(indices.norm_weight);
  return values;
}

}  // namespace muonshard
