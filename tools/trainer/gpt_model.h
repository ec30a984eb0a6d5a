// One replica of a byte-level GPT: its parameters, loss and gradients, computed
// by LibTorch on the calling thread.
//
// Parameters are f32, contiguous, and stay where they are for the replica's
// life. A caller that updates them from elsewhere is asked, parameter by
// parameter, before the first use in a forward; and is told, parameter by
// parameter, when a backward has left a gradient.
//
// Ordering     `before_use` comes in order of first use, once a forward.
//              `on_gradient` comes during the backward, once a parameter.
// Threads      A replica belongs to one thread; different replicas run at once.
//              Before the first, the process calls `UseOneThread`.
// Memory       Gradients accumulate until `DropGradients`; the memory handed to
//              `on_gradient` is the replica's and may lie elsewhere next time.
// Errors       What LibTorch throws comes back as kInternal; an error of a
//              callback comes back as it is.

#ifndef TOOLS_TRAINER_GPT_MODEL_H_
#define TOOLS_TRAINER_GPT_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/trainer/gpt_parameters.h"
#include "tools/trainer/text_data.h"

namespace muonshard {

// One parameter's gradient after a backward.
struct GradientArrival {
  int32_t parameter = 0;
  std::span<const float> accumulated;  // Since `DropGradients`.
  std::span<const float> own;          // Of this backward alone.
};

struct GptCallbacks {
  std::function<absl::Status(int32_t parameter)> before_use;
  std::function<absl::Status(const GradientArrival&)> on_gradient;
};

// Makes LibTorch and OpenBLAS compute on the thread that calls them, on every
// thread of the process. Called while no thread computes: OpenBLAS' number
// belongs to the process and is read by products under way.
void UseOneThread();

class GptModel {
 public:
  // `values` as made by GptInitialValues.
  static absl::StatusOr<std::unique_ptr<GptModel>> Create(
      const ByteGptShape& shape, const std::vector<std::vector<float>>& values,
      GptCallbacks callbacks);
  ~GptModel();

  int32_t parameter_count() const;
  std::span<float> parameter(int32_t index);

  // The mean loss over the targets of `batch`, in nats a byte.
  absl::StatusOr<double> Loss(const TokenBatch& batch);

  // The same, a graph being kept for one `Backward`.
  absl::StatusOr<double> Forward(const TokenBatch& batch);

  // Adds the gradients of `scale` times the loss of the last `Forward`.
  absl::Status Backward(double scale);

  void DropGradients();

 private:
  struct State;
  explicit GptModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_GPT_MODEL_H_
