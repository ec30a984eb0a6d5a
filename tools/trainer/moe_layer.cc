#include "tools/trainer/moe_layer.h"

#include <ATen/ATen.h>

#include <numeric>
#include <tuple>

namespace muonshard {
namespace {

std::vector<int64_t> CountEach(const at::Tensor& choice, int64_t experts) {
  std::vector<int64_t> counts(static_cast<size_t>(experts));
  const int64_t* choices = choice.data_ptr<int64_t>();
  for (int64_t t = 0; t < choice.numel(); ++t) {
    ++counts[static_cast<size_t>(choices[t])];
  }
  return counts;
}

// Sums of `runs` equal runs of `counts`.
std::vector<int64_t> SumEach(const std::vector<int64_t>& counts, int32_t runs) {
  std::vector<int64_t> sums(static_cast<size_t>(runs));
  for (size_t i = 0; i < counts.size(); ++i) {
    sums[i * sums.size() / counts.size()] += counts[i];
  }
  return sums;
}

// Where the rows that arrived, by rank and then by expert, come from if they
// are put in order by expert and then by rank.
struct ByExpert {
  at::Tensor order;             // [rows]
  std::vector<int64_t> counts;  // One per expert of this rank.
};

// `counts` is [rank][expert].
ByExpert OrderByExpert(const std::vector<int64_t>& counts, int32_t ranks) {
  const size_t experts = counts.size() / static_cast<size_t>(ranks);
  std::vector<int64_t> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), int64_t{0});
  ByExpert result;
  std::vector<int64_t> order;
  for (size_t expert = 0; expert < experts; ++expert) {
    const size_t before = order.size();
    for (size_t i = expert; i < counts.size(); i += experts) {
      for (int64_t row = 0; row < counts[i]; ++row) {
        order.push_back(starts[i] + row);
      }
    }
    result.counts.push_back(static_cast<int64_t>(order.size() - before));
  }
  result.order = at::tensor(order, at::kLong);
  return result;
}

// The order that undoes `order`.
at::Tensor Inverse(const at::Tensor& order) {
  return at::empty_like(order).scatter_(0, order,
                                        at::arange(order.numel(), at::kLong));
}

// `rows` are in order by expert.
at::Tensor RunExperts(const at::Tensor& rows,
                      const std::vector<int64_t>& counts,
                      const MoeWeights& weights) {
  const std::vector<at::Tensor> inputs = rows.split_with_sizes(counts);
  const std::vector<at::Tensor> up = weights.up.unbind();
  const std::vector<at::Tensor> down = weights.down.unbind();
  std::vector<at::Tensor> outputs;
  for (size_t e = 0; e < inputs.size(); ++e) {
    outputs.push_back(
        at::linear(at::gelu(at::linear(inputs[e], up[e]), "tanh"), down[e]));
  }
  return at::cat(outputs);
}

}  // namespace

MoeResult MoeForward(const at::Tensor& positions, const MoeWeights& weights,
                     const TokenExchange& exchange) {
  const int64_t experts = weights.router.size(0);
  const at::Tensor probabilities =
      at::softmax(at::linear(positions, weights.router), -1);
  const auto [gate, choice] = probabilities.max(-1);
  MoeResult result;
  result.chosen = CountEach(choice, experts);
  const at::Tensor shares =
      at::tensor(result.chosen, at::kFloat) / positions.size(0);
  result.imbalance = (shares * probabilities.mean(0)).sum() * experts;

  // By expert, and so by the rank that has it; stable, so in order within one.
  const at::Tensor order =
      std::get<1>(at::sort(choice, /*stable=*/c10::optional<bool>(true)));
  const std::vector<int64_t> arrived = exchange.Counts(result.chosen);
  const RowCounts there = {.sent = SumEach(result.chosen, exchange.size()),
                           .received = SumEach(arrived, exchange.size())};
  const RowCounts back = {.sent = there.received, .received = there.sent};
  const ByExpert by_expert = OrderByExpert(arrived, exchange.size());
  const at::Tensor inputs =
      exchange.Rows(positions.index_select(0, order), there)
          .index_select(0, by_expert.order);
  const at::Tensor outputs = RunExperts(inputs, by_expert.counts, weights)
                                 .index_select(0, Inverse(by_expert.order));
  result.mixed = exchange.Rows(outputs, back).index_select(0, Inverse(order)) *
                 gate.unsqueeze(-1);
  return result;
}

}  // namespace muonshard
