#include "tools/trainer/autograd_hooks.h"

#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace muonshard {

using torch::autograd::Node;
using torch::autograd::Variable;
using torch::autograd::utils::LambdaPostHook;

AutogradHooks::~AutogradHooks() {
  for (size_t i = 0; i < accumulators_.size(); ++i) {
    accumulators_[i]->del_post_hook(keys_[i]);
  }
}

void AutogradHooks::Attach(const std::vector<at::Tensor>& leaves, Hook hook) {
  leaves_ = leaves;
  hook_ = std::move(hook);
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    std::shared_ptr<Node> accumulator =
        torch::autograd::impl::grad_accumulator(leaves_[i]);
    keys_.push_back(accumulator->add_post_hook(std::make_unique<LambdaPostHook>(
        [this, index](const std::vector<Variable>& outputs,
                      const std::vector<Variable>& inputs) {
          Run(index, inputs[0]);
          return outputs;
        })));
    accumulators_.push_back(std::move(accumulator));
  }
}

void AutogradHooks::Run(int32_t index, const at::Tensor& own) {
  if (!status_.ok()) return;
  status_ = hook_(index, leaves_[static_cast<size_t>(index)].grad(), own);
}

}  // namespace muonshard
