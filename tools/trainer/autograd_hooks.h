// Tells when autograd has accumulated a gradient, one tensor at a time.
//
// Ordering     The hook of a leaf runs in the thread that called backward,
//              right after the gradient of one backward was added to the
//              leaf's `grad()`; leaves come in the order autograd finds them.
// Memory       The accumulator of a leaf is held only weakly by the leaf, so
//              an AutogradHooks keeps it; it dies before the leaves do.
// Errors       A hook that fails does not end the backward: the first error is
//              kept until `TakeStatus`.

#ifndef TOOLS_TRAINER_AUTOGRAD_HOOKS_H_
#define TOOLS_TRAINER_AUTOGRAD_HOOKS_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace muonshard {

class AutogradHooks {
 public:
  // `accumulated` is the leaf's grad; `own` what this backward alone gave, the
  // same tensor after the first backward.
  using Hook = std::function<absl::Status(
      int32_t index, const at::Tensor& accumulated, const at::Tensor& own)>;

  AutogradHooks() = default;
  ~AutogradHooks();
  AutogradHooks(const AutogradHooks&) = delete;
  AutogradHooks& operator=(const AutogradHooks&) = delete;

  // Hooks every leaf; `index` is the position in `leaves`. Called once.
  void Attach(const std::vector<at::Tensor>& leaves, Hook hook);

  // The first error since the last call.
  absl::Status TakeStatus() { return std::exchange(status_, absl::Status()); }

 private:
  void Run(int32_t index, const at::Tensor& own);

  std::vector<at::Tensor> leaves_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::vector<uintptr_t> keys_;
  Hook hook_;
  absl::Status status_;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_AUTOGRAD_HOOKS_H_
