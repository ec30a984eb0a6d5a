// One replica of a byte-level GPT: its parameters, loss and gradients, computed
// by LibTorch on the calling thread.
//
// Parameters have the type of their specs, are contiguous, and stay where they
// are for the replica's life. A caller that updates them from elsewhere is
// asked, parameter by parameter, before the first use in a forward; and is
// told, parameter by parameter, when a backward has left a gradient.
//
// Ordering     `before_use` comes in order of first use, once a forward.
//              `on_gradient` comes during the backward, once a parameter. With
//              an expert group, Loss, Forward and Backward are collective
//              calls over it.
// Threads      A replica belongs to one thread; different replicas run at once.
//              Before the first, the process calls `UseOneThread`.
// Memory       Gradients accumulate until `DropGradients`; the memory handed to
//              `on_gradient` is the replica's and may lie elsewhere next time.
// Numerics     Computes in f32 from parameters of any type. A gradient is
//              rounded to the type of its parameter after each backward, and
//              so is the sum over backwards; what is too large is infinite.
// Errors       What LibTorch throws comes back as kInternal; an error of a
//              callback or of the expert group comes back as it is.

#ifndef TOOLS_TRAINER_GPT_MODEL_H_
#define TOOLS_TRAINER_GPT_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "optimizer/parameter_spec.h"
#include "tools/trainer/gpt_parameters.h"
#include "tools/trainer/text_data.h"

namespace muonshard {

// One parameter's gradient after a backward, in the parameter's type.
struct GradientArrival {
  int32_t parameter = 0;
  std::span<const std::byte> accumulated;  // Since `DropGradients`.
  std::span<const std::byte> own;          // Of this backward alone.
};

struct GptCallbacks {
  std::function<absl::Status(int32_t parameter)> before_use;
  std::function<absl::Status(const GradientArrival&)> on_gradient;
};

struct GptModelConfig {
  ByteGptShape shape;
  // As made by PlaceOnMesh; of one rank alone by GptParameterSpecs.
  std::vector<ParameterSpec> specs;
  // One per spec, in its type.
  std::vector<std::vector<std::byte>> first_values;
  GptCallbacks callbacks;
  // The ranks that the experts are spread over, in the order of their places;
  // outlives the model. Null: this rank has all.
  Collective* expert_group = nullptr;
  absl::Duration timeout = absl::Minutes(5);  // Of each exchange in it.
};

// Makes LibTorch and OpenBLAS compute on the thread that calls them, on every
// thread of the process. Called while no thread computes: OpenBLAS' number
// belongs to the process and is read by products under way.
void UseOneThread();

class GptModel {
 public:
  static absl::StatusOr<std::unique_ptr<GptModel>> Create(
      GptModelConfig config);
  ~GptModel();

  int32_t parameter_count() const;
  std::span<std::byte> parameter(int32_t index);

  // The mean loss over the targets of `batch`, in nats a byte.
  absl::StatusOr<double> Loss(const TokenBatch& batch);

  // The same, a graph being kept for one `Backward`.
  absl::StatusOr<double> Forward(const TokenBatch& batch);

  // Adds the gradients of `scale` times the loss of the last `Forward`; with
  // experts, of that and a small part of how unevenly they were chosen.
  absl::Status Backward(double scale);

  // How often each expert of all was chosen for a position of this rank, in
  // all layers and every `Forward`.
  const std::vector<int64_t>& expert_positions() const;

  void DropGradients();

 private:
  struct State;
  explicit GptModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_GPT_MODEL_H_
