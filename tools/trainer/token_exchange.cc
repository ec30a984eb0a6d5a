#include "tools/trainer/token_exchange.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "tools/trainer/status_exception.h"

namespace muonshard {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void ThrowIfError(absl::Status status) {
  if (!status.ok()) throw StatusException(std::move(status));
}

std::vector<int64_t> Times(std::vector<int64_t> counts, int64_t width) {
  for (int64_t& count : counts) count *= width;
  return counts;
}

// What the backward has to know of a forward.
struct Route : torch::CustomClassHolder {
  const TokenExchange* exchange = nullptr;
  RowCounts counts;
};

class ExchangeRows : public torch::autograd::Function<ExchangeRows> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            const TokenExchange* exchange, RowCounts counts) {
    const at::Tensor arrived = exchange->Move(rows, counts, "tokens");
    auto route = c10::make_intrusive<Route>();
    route->exchange = exchange;
    route->counts = std::move(counts);
    context->saved_data["route"] = c10::IValue::make_capsule(std::move(route));
    return arrived;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const auto route = c10::static_intrusive_pointer_cast<Route>(
        context->saved_data["route"].toCapsule());
    const RowCounts back = {.sent = route->counts.received,
                            .received = route->counts.sent};
    return {route->exchange->Move(gradients[0], back, "gradients of tokens"),
            at::Tensor(), at::Tensor()};
  }
};

}  // namespace

TokenExchange::TokenExchange(Collective* group, absl::Duration timeout)
    : group_(group), timeout_(timeout) {}

CallOptions TokenExchange::OptionsOf(absl::string_view label) const {
  return {.label = std::string(label),
          .deadline = group_->runtime().Now() + timeout_};
}

std::vector<int64_t> TokenExchange::Counts(std::vector<int64_t> counts) const {
  if (group_ == nullptr) return counts;
  std::vector<int64_t> arrived(counts.size());
  const std::vector<int64_t> each(static_cast<size_t>(size()),
                                  static_cast<int64_t>(counts.size()) / size());
  ThrowIfError(AwaitEnd(
      group_->AllToAllV(ConstBuffer::Of(std::span<const int64_t>(counts)),
                        MutableBuffer::Of(std::span<int64_t>(arrived)), each,
                        each, OptionsOf("counts of tokens"))));
  return arrived;
}

at::Tensor TokenExchange::Rows(const at::Tensor& rows, RowCounts counts) const {
  if (group_ == nullptr) return rows;
  return ExchangeRows::apply(rows, this, std::move(counts));
}

at::Tensor TokenExchange::Move(const at::Tensor& rows, const RowCounts& counts,
                               absl::string_view label) const {
  const at::Tensor in = rows.contiguous();
  const int64_t width = in.size(1);
  at::Tensor out =
      at::empty({std::accumulate(counts.received.begin(), counts.received.end(),
                                 int64_t{0}),
                 width},
                in.options());
  ThrowIfError(AwaitEnd(
      group_->AllToAllV({in.data_ptr<float>(), in.numel(), DataType::kF32},
                        {out.data_ptr<float>(), out.numel(), DataType::kF32},
                        Times(counts.sent, width),
                        Times(counts.received, width), OptionsOf(label))));
  return out;
}

}  // namespace muonshard
