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
#include "tools/trainer/autograd_hooks.h"

namespace muonshard {
namespace {

// Carries a callback's error through code that only knows exceptions.
struct CallbackError : std::exception {
  explicit CallbackError(absl::Status s) : status(std::move(s)) {}
  absl::Status status;
};

absl::Status InternalError(absl::string_view doing, const std::exception& e) {
  absl::string_view text = e.what();
  return absl::InternalError(
      absl::StrCat("LibTorch, ", doing, ": ", text.substr(0, text.find('\n'))));
}

std::span<const float> Floats(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
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
  std::vector<at::Tensor> parameters;
  at::Tensor causal_mask;  // -inf above the diagonal, [context, context].
  at::Tensor loss;         // Of the last Forward.
  // The last member: the hooks die before the leaves.
  AutogradHooks hooks;

  const at::Tensor& Use(int32_t index) {
    if (callbacks.before_use != nullptr) {
      if (absl::Status s = callbacks.before_use(index); !s.ok()) {
        throw CallbackError(std::move(s));
      }
    }
    return parameters[static_cast<size_t>(index)];
  }

  at::Tensor Linear(const at::Tensor& x, int32_t weight, int32_t bias) {
    const at::Tensor& w = Use(weight);
    return at::linear(x, w, Use(bias));
  }

  at::Tensor Norm(const at::Tensor& x, int32_t weight, int32_t bias) {
    const at::Tensor& w = Use(weight);
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

  at::Tensor LossOf(const TokenBatch& batch) {
    const at::Tensor tokens = at::tensor(batch.tokens, at::kLong)
                                  .view({batch.sequences, batch.context + 1});
    const at::Tensor inputs = tokens.narrow(1, 0, batch.context);
    const at::Tensor targets = tokens.narrow(1, 1, batch.context);
    at::Tensor x = at::embedding(Use(indices.tokens), inputs);
    x = x + Use(indices.positions);
    for (const GptLayerIndices& layer : indices.layers) {
      x = x + Attention(Norm(x, layer.norm1_weight, layer.norm1_bias), layer);
      x = x + Mlp(Norm(x, layer.norm2_weight, layer.norm2_bias), layer);
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
    } catch (const CallbackError& e) {
      return e.status;
    } catch (const std::exception& e) {
      return InternalError("forward", e);
    }
  }
};

GptModel::GptModel(std::unique_ptr<State> state) : state_(std::move(state)) {}

GptModel::~GptModel() = default;

absl::StatusOr<std::unique_ptr<GptModel>> GptModel::Create(
    const ByteGptShape& shape, const std::vector<std::vector<float>>& values,
    GptCallbacks callbacks) {
  if (absl::Status s = Validate(shape); !s.ok()) return s;
  const std::vector<ParameterSpec> specs =
      GptParameterSpecs(shape, Rule::kAdamW);
  if (values.size() != specs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("initial values: want ", specs.size(), " parameters, got ",
                     values.size()));
  }
  auto state = std::make_unique<State>();
  state->shape = shape;
  state->indices = IndicesOf(shape);
  state->callbacks = std::move(callbacks);
  try {
    for (size_t i = 0; i < specs.size(); ++i) {
      if (static_cast<int64_t>(values[i].size()) != ElementCount(specs[i])) {
        return absl::InvalidArgumentError(absl::StrCat(
            "initial values of \"", specs[i].name, "\": want ",
            ElementCount(specs[i]), " elements, got ", values[i].size()));
      }
      at::Tensor tensor = at::empty(specs[i].shape, at::kFloat);
      std::copy(values[i].begin(), values[i].end(), tensor.data_ptr<float>());
      tensor.set_requires_grad(true);
      state->parameters.push_back(std::move(tensor));
    }
    state->causal_mask =
        at::full({shape.context, shape.context},
                 -std::numeric_limits<float>::infinity(), at::kFloat)
            .triu(1);
    if (state->callbacks.on_gradient != nullptr) {
      state->hooks.Attach(
          state->parameters,
          [s = state.get()](int32_t index, const at::Tensor& accumulated,
                            const at::Tensor& own) -> absl::Status {
            // Autograd stores a gradient in the layout of its leaf, but may
            // hand it over transposed.
            const at::Tensor own_in_order = own.contiguous();
            return s->callbacks.on_gradient(
                {index, Floats(accumulated), Floats(own_in_order)});
          });
    }
  } catch (const std::exception& e) {
    return InternalError("parameters", e);
  }
  return std::unique_ptr<GptModel>(new GptModel(std::move(state)));
}

int32_t GptModel::parameter_count() const {
  return static_cast<int32_t>(state_->parameters.size());
}

std::span<float> GptModel::parameter(int32_t index) {
  const at::Tensor& tensor = state_->parameters[static_cast<size_t>(index)];
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
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
  state_->loss = *std::move(loss);
  return state_->loss.item<double>();
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
