#include "tools/trainer/gpt_model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "collectives/data_type.h"
#include "tools/trainer/autograd_hooks.h"
#include "tools/trainer/moe_layer.h"
#include "tools/trainer/status_exception.h"
#include "tools/trainer/token_exchange.h"

namespace muonshard {
namespace {

// How much of the imbalance of a layer's experts is in the loss that is
// differentiated: the weight of the Switch Transformer.
constexpr double kImbalanceWeight = 0.01;

absl::Status InternalError(absl::string_view doing, const std::exception& e) {
  absl::string_view text = e.what();
  return absl::InternalError(
      absl::StrCat("LibTorch, ", doing, ": ", text.substr(0, text.find('\n'))));
}

std::span<std::byte> Bytes(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

at::ScalarType ScalarTypeOf(DataType type) {
  switch (type) {
    case DataType::kBF16:
      return at::kBFloat16;
    case DataType::kF16:
      return at::kHalf;
    default:
      return at::kFloat;
  }
}

absl::Status CheckConfig(const GptModelConfig& config) {
  if (absl::Status s = Validate(config.shape); !s.ok()) return s;
  const size_t wanted =
      GptParameterSpecs(config.shape, Rule::kAdamW, DataType::kF32).size();
  if (config.specs.size() != wanted || config.first_values.size() != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model: want specs and first values of ", wanted, " parameters, got ",
        config.specs.size(), " and ", config.first_values.size()));
  }
  for (size_t i = 0; i < wanted; ++i) {
    const ParameterSpec& spec = config.specs[i];
    const size_t bytes =
        static_cast<size_t>(ElementCount(spec)) * ByteWidth(spec.dtype);
    if (config.first_values[i].size() == bytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("first values of \"", spec.name, "\": want ", bytes,
                     " bytes, got ", config.first_values[i].size()));
  }
  return absl::OkStatus();
}

}  // namespace

void UseOneThread() {
  // LibTorch hands its number to the OpenMP of each thread when that thread
  // first computes.
  at::set_num_threads(1);
  openblas_set_num_threads(1);
}

struct GptModel::State {
  ByteGptShape shape;
  GptIndices indices;
  GptCallbacks callbacks;
  TokenExchange exchange;
  std::vector<at::Tensor> parameters;
  at::Tensor causal_mask;  // -inf above the diagonal, [context, context].
  at::Tensor imbalance;    // Of all layers' experts, in the last forward.
  at::Tensor loss;         // Of the last Forward, imbalance included.
  std::vector<int64_t> expert_positions;
  // The last member: the hooks die before the leaves.
  AutogradHooks hooks;

  explicit State(const GptModelConfig& config)
      : shape(config.shape),
        indices(IndicesOf(config.shape)),
        callbacks(config.callbacks),
        exchange(config.expert_group, config.timeout),
        expert_positions(static_cast<size_t>(config.shape.experts)) {}

  void MakeTensors(const GptModelConfig& config) {
    for (size_t i = 0; i < config.specs.size(); ++i) {
      at::Tensor tensor =
          at::empty(config.specs[i].shape, ScalarTypeOf(config.specs[i].dtype));
      std::copy(config.first_values[i].begin(), config.first_values[i].end(),
                Bytes(tensor).begin());
      tensor.set_requires_grad(true);
      parameters.push_back(std::move(tensor));
    }
    causal_mask = at::full({shape.context, shape.context},
                           -std::numeric_limits<float>::infinity(), at::kFloat)
                      .triu(1);
  }

  void AttachHooks() {
    if (callbacks.on_gradient == nullptr) return;
    hooks.Attach(parameters,
                 [this](int32_t index, const at::Tensor& accumulated,
                        const at::Tensor& own) -> absl::Status {
                   // Autograd stores a gradient in the layout of its leaf, but
                   // may hand it over transposed.
                   const at::Tensor own_in_order = own.contiguous();
                   return callbacks.on_gradient(
                       {index, Bytes(accumulated), Bytes(own_in_order)});
                 });
  }

  // In f32: LibTorch has no products of 16 bits on a CPU. The backward of the
  // conversion rounds the gradient to the parameter's type.
  at::Tensor Use(int32_t index) {
    if (callbacks.before_use != nullptr) {
      if (absl::Status s = callbacks.before_use(index); !s.ok()) {
        throw StatusException(std::move(s));
      }
    }
    return parameters[static_cast<size_t>(index)].to(at::kFloat);
  }

  at::Tensor Linear(const at::Tensor& x, int32_t weight, int32_t bias) {
    const at::Tensor w = Use(weight);
    return at::linear(x, w, Use(bias));
  }

  at::Tensor Norm(const at::Tensor& x, int32_t weight, int32_t bias) {
    const at::Tensor w = Use(weight);
    return at::layer_norm(x, {shape.width}, w, Use(bias));
  }

  at::Tensor Attention(const at::Tensor& x, const GptLayerIndices& layer) {
    const int64_t sequences = x.size(0);
    const int64_t head_width = shape.width / shape.heads;
    // [3, sequences, heads, context, head_width]
    const at::Tensor qkv =
        Linear(x, layer.qkv_weight, layer.qkv_bias)
            .view({sequences, shape.context, 3, shape.heads, head_width})
            .permute({2, 0, 3, 1, 4});
    const at::Tensor q =
        qkv.select(0, 0) / std::sqrt(static_cast<double>(head_width));
    const at::Tensor scores =
        at::matmul(q, qkv.select(0, 1).transpose(-2, -1)) + causal_mask;
    const at::Tensor mixed =
        at::matmul(at::softmax(scores, -1), qkv.select(0, 2))
            .transpose(1, 2)
            .reshape({sequences, shape.context, shape.width});
    return Linear(mixed, layer.projection_weight, layer.projection_bias);
  }

  at::Tensor Mlp(const at::Tensor& x, const GptLayerIndices& layer) {
    return Linear(at::gelu(Linear(x, layer.up_weight, layer.up_bias), "tanh"),
                  layer.down_weight, layer.down_bias);
  }

  at::Tensor Experts(const at::Tensor& x, const GptLayerIndices& layer) {
    MoeWeights weights;
    weights.router = Use(layer.router);
    weights.up = Use(layer.expert_up);
    weights.down = Use(layer.expert_down);
    const MoeResult result =
        MoeForward(x.reshape({-1, shape.width}), weights, exchange);
    imbalance =
        imbalance.defined() ? imbalance + result.imbalance : result.imbalance;
    // A graph is kept for a backward: this is a step, and no evaluation.
    if (at::GradMode::is_enabled()) {
      for (size_t e = 0; e < expert_positions.size(); ++e) {
        expert_positions[e] += result.chosen[e];
      }
    }
    return result.mixed.view(x.sizes());
  }

  at::Tensor LossOf(const TokenBatch& batch) {
    imbalance = at::Tensor();
    const at::Tensor tokens = at::tensor(batch.tokens, at::kLong)
                                  .view({batch.sequences, batch.context + 1});
    const at::Tensor inputs = tokens.narrow(1, 0, batch.context);
    const at::Tensor targets = tokens.narrow(1, 1, batch.context);
    at::Tensor x = at::embedding(Use(indices.tokens), inputs);
    x = x + Use(indices.positions);
    for (const GptLayerIndices& layer : indices.layers) {
      x = x + Attention(Norm(x, layer.norm1_weight, layer.norm1_bias), layer);
      const at::Tensor y = Norm(x, layer.norm2_weight, layer.norm2_bias);
      x = x + (shape.experts == 0 ? Mlp(y, layer) : Experts(y, layer));
    }
    x = Norm(x, indices.norm_weight, indices.norm_bias);
    const at::Tensor logits = at::linear(x, Use(indices.head));
    return at::cross_entropy_loss(logits.reshape({-1, kByteVocabulary}),
                                  targets.reshape({-1}));
  }

  absl::StatusOr<at::Tensor> TryLossOf(const TokenBatch& batch) {
    if (batch.context != shape.context) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch: want windows of context ", shape.context,
                       ", got ", batch.context));
    }
    try {
      return LossOf(batch);
    } catch (const StatusException& e) {
      return e.status;
    } catch (const std::exception& e) {
      return InternalError("forward", e);
    }
  }
};

GptModel::GptModel(std::unique_ptr<State> state) : state_(std::move(state)) {}

GptModel::~GptModel() = default;

absl::StatusOr<std::unique_ptr<GptModel>> GptModel::Create(
    GptModelConfig config) {
  if (absl::Status s = CheckConfig(config); !s.ok()) return s;
  auto state = std::make_unique<State>(config);
  try {
    state->MakeTensors(config);
    state->AttachHooks();
  } catch (const std::exception& e) {
    return InternalError("parameters", e);
  }
  return std::unique_ptr<GptModel>(new GptModel(std::move(state)));
}

int32_t GptModel::parameter_count() const {
  return static_cast<int32_t>(state_->parameters.size());
}

std::span<std::byte> GptModel::parameter(int32_t index) {
  return Bytes(state_->parameters[static_cast<size_t>(index)]);
}

const std::vector<int64_t>& GptModel::expert_positions() const {
  return state_->expert_positions;
}

absl::StatusOr<double> GptModel::Loss(const TokenBatch& batch) {
  const at::NoGradGuard no_graph;
  absl::StatusOr<at::Tensor> loss = state_->TryLossOf(batch);
  if (!loss.ok()) return loss.status();
  return loss->item<double>();
}

absl::StatusOr<double> GptModel::Forward(const TokenBatch& batch) {
  absl::StatusOr<at::Tensor> loss = state_->TryLossOf(batch);
  if (!loss.ok()) return loss.status();
  const at::Tensor imbalance = std::exchange(state_->imbalance, at::Tensor());
  state_->loss =
      imbalance.defined() ? *loss + kImbalanceWeight * imbalance : *loss;
  return loss->item<double>();
}

absl::Status GptModel::Backward(double scale) {
  if (!state_->loss.defined()) {
    return absl::FailedPreconditionError(
        "backward: want a forward first, got none since the last backward");
  }
  // Moved out, so that the graph is gone when this returns.
  const at::Tensor loss = std::exchange(state_->loss, at::Tensor());
  try {
    (scale == 1 ? loss : loss * scale).backward();
  } catch (const StatusException& e) {
    absl::Status of_hook = state_->hooks.TakeStatus();
    return of_hook.ok() ? e.status : of_hook;
  } catch (const std::exception& e) {
    return InternalError("backward", e);
  }
  return state_->hooks.TakeStatus();
}

void GptModel::DropGradients() {
  for (at::Tensor& tensor : state_->parameters) {
    tensor.mutable_grad() = at::Tensor();
  }
}

}  // namespace muonshard
