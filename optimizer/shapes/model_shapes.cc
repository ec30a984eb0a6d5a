#include "optimizer/shapes/model_shapes.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muonshard {
namespace {

constexpr absl::string_view kGpt2Name = "gpt2-124m";
constexpr absl::string_view kGpt1300MName = "gpt-1.3b";
constexpr absl::string_view kLlama3Name = "llama3-8b";
constexpr absl::string_view kDeepSeekMoeName = "deepseek-moe-16b";

void AddElementWise(std::string name, std::vector<int64_t> shape,
                    std::vector<ParameterSpec>& specs) {
  specs.push_back({.name = std::move(name),
                   .shape = std::move(shape),
                   .rule = Rule::kAdamW});
}

// `row_blocks` are the heights of the matrices stacked in [rows, cols].
void AddMatrix(std::string name, const std::vector<int64_t>& row_blocks,
               int64_t cols, std::vector<ParameterSpec>& specs) {
  int64_t rows = 0;
  for (const int64_t height : row_blocks) rows += height;
  ParameterSpec spec = {
      .name = std::move(name), .shape = {rows, cols}, .rule = Rule::kMuon};
  if (row_blocks.size() > 1) spec.blocks.sizes = row_blocks;
  specs.push_back(std::move(spec));
}

void AddLayerNorm(const std::string& name, int64_t width,
                  std::vector<ParameterSpec>& specs) {
  AddElementWise(name + ".weight", {width}, specs);
  AddElementWise(name + ".bias", {width}, specs);
}

void AddLinear(const std::string& name, const std::vector<int64_t>& row_blocks,
               int64_t cols, std::vector<ParameterSpec>& specs) {
  AddMatrix(name + ".weight", row_blocks, cols, specs);
  AddElementWise(name + ".bias", {specs.back().shape[0]}, specs);
}

// A bank of `count` matrices of `row_blocks` x `cols`.
void AddExperts(std::string name, int64_t count, bool live_apart,
                const std::vector<int64_t>& row_blocks, int64_t cols,
                std::vector<ParameterSpec>& specs) {
  AddMatrix(std::move(name), row_blocks, cols, specs);
  ParameterSpec& spec = specs.back();
  spec.shape.insert(spec.shape.begin(), count);
  if (live_apart) spec.roles["ep"] = AxisRole::kDistinct;
}

}  // namespace

std::vector<ParameterSpec> GptParameters(const GptShape& shape) {
  const int64_t width = shape.width;
  std::vector<ParameterSpec> specs;
  AddElementWise("token_embedding", {shape.vocabulary, width}, specs);
  AddElementWise("position_embedding", {shape.context, width}, specs);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = absl::StrCat("blocks.", layer, ".");
    AddLayerNorm(prefix + "attention_norm", width, specs);
    AddLinear(prefix + "attention.qkv", {width, width, width}, width, specs);
    AddLinear(prefix + "attention.out", {width}, width, specs);
    AddLayerNorm(prefix + "mlp_norm", width, specs);
    AddLinear(prefix + "mlp.up", {4 * width}, width, specs);
    AddLinear(prefix + "mlp.down", {width}, 4 * width, specs);
  }
  AddLayerNorm("final_norm", width, specs);
  return specs;
}

std::vector<ParameterSpec> Gpt2Parameters124M() {
  return GptParameters(
      {.layers = 12, .width = 768, .context = 1024, .vocabulary = 50257});
}

std::vector<ParameterSpec> GptParameters1300M() {
  return GptParameters(
      {.layers = 24, .width = 2048, .context = 2048, .vocabulary = 50257});
}

std::vector<ParameterSpec> Llama3Parameters8B() {
  constexpr int64_t kLayers = 32;
  constexpr int64_t kWidth = 4096;
  constexpr int64_t kKeyWidth = 8 * 128;
  constexpr int64_t kHidden = 14336;
  constexpr int64_t kVocabulary = 128256;
  std::vector<ParameterSpec> specs;
  AddElementWise("token_embedding", {kVocabulary, kWidth}, specs);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = absl::StrCat("layers.", layer, ".");
    AddElementWise(prefix + "attention_norm", {kWidth}, specs);
    AddMatrix(prefix + "attention.qkv", {kWidth, kKeyWidth, kKeyWidth}, kWidth,
              specs);
    AddMatrix(prefix + "attention.out", {kWidth}, kWidth, specs);
    AddElementWise(prefix + "mlp_norm", {kWidth}, specs);
    AddMatrix(prefix + "mlp.gate_up", {kHidden, kHidden}, kWidth, specs);
    AddMatrix(prefix + "mlp.down", {kWidth}, kHidden, specs);
  }
  AddElementWise("final_norm", {kWidth}, specs);
  AddElementWise("head", {kVocabulary, kWidth}, specs);
  return specs;
}

absl::StatusOr<std::vector<ParameterSpec>> DeepSeekMoeParameters16B(
    const Mesh& mesh) {
  constexpr int64_t kLayers = 28;
  constexpr int64_t kWidth = 2048;
  constexpr int64_t kDenseHidden = 10944;
  constexpr int64_t kExperts = 64;
  constexpr int64_t kExpertHidden = 1408;
  constexpr int64_t kSharedHidden = 2 * kExpertHidden;
  constexpr int64_t kVocabulary = 102400;
  const absl::StatusOr<int> axis = mesh.AxisIndex("ep");
  const int64_t degree =
      axis.ok() ? mesh.axes()[static_cast<size_t>(*axis)].degree : 1;
  if (kExperts % degree != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model \"", kDeepSeekMoeName,
                                                   "\": want an \"ep\" that "
                                                   "divides its ",
                                                   kExperts, " experts, got ",
                                                   degree));
  }
  const int64_t own_experts = kExperts / degree;
  std::vector<ParameterSpec> specs;
  AddElementWise("token_embedding", {kVocabulary, kWidth}, specs);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = absl::StrCat("layers.", layer, ".");
    AddElementWise(prefix + "attention_norm", {kWidth}, specs);
    AddMatrix(prefix + "attention.qkv", {kWidth, kWidth, kWidth}, kWidth,
              specs);
    AddMatrix(prefix + "attention.out", {kWidth}, kWidth, specs);
    AddElementWise(prefix + "mlp_norm", {kWidth}, specs);
    const int64_t hidden = layer == 0 ? kDenseHidden : kSharedHidden;
    AddMatrix(prefix + "mlp.gate_up", {hidden, hidden}, kWidth, specs);
    AddMatrix(prefix + "mlp.down", {kWidth}, hidden, specs);
    if (layer == 0) continue;
    AddElementWise(prefix + "router", {kExperts, kWidth}, specs);
    AddExperts(prefix + "experts.gate_up", own_experts, axis.ok(),
               {kExpertHidden, kExpertHidden}, kWidth, specs);
    AddExperts(prefix + "experts.down", own_experts, axis.ok(), {kWidth},
               kExpertHidden, specs);
  }
  AddElementWise("final_norm", {kWidth}, specs);
  AddElementWise("head", {kVocabulary, kWidth}, specs);
  return specs;
}

std::vector<std::string> ModelNames() {
  return {std::string(kGpt2Name), std::string(kGpt1300MName),
          std::string(kLlama3Name), std::string(kDeepSeekMoeName)};
}

absl::StatusOr<std::vector<ParameterSpec>> ModelParameters(
    absl::string_view name, const Mesh& mesh) {
  if (name == kGpt2Name) return Gpt2Parameters124M();
  if (name == kGpt1300MName) return GptParameters1300M();
  if (name == kLlama3Name) return Llama3Parameters8B();
  if (name == kDeepSeekMoeName) return DeepSeekMoeParameters16B(mesh);
  return absl::NotFoundError(absl::StrCat("no model \"", name, "\"; there are ",
                                          absl::StrJoin(ModelNames(), ", ")));
}

}  // namespace muonshard
