// A layer of experts: a router chooses one of several MLPs for each position,
// which may be another rank's.
//
// In this file
//   E   experts of the layer, of all ranks of the exchange together
//   n   ranks of the exchange; rank i has the experts [i E/n, (i + 1) E/n)
//   T   positions of this rank; W their width
//
// Ordering   A collective call over the exchange's ranks, as is its backward.
// Numerics   An expert sees its positions by rank, then in order. The result
//            is the chosen MLP's, times the router's probability of it.
// Errors     Thrown, as a StatusException or as LibTorch's.

#ifndef TOOLS_TRAINER_MOE_LAYER_H_
#define TOOLS_TRAINER_MOE_LAYER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tools/trainer/token_exchange.h"

namespace muonshard {

struct MoeWeights {
  at::Tensor router;  // [E, W]
  at::Tensor up;      // [E/n, 4 W, W]
  at::Tensor down;    // [E/n, W, 4 W]
};

struct MoeResult {
  at::Tensor mixed;  // [T, W]
  // 1 if all experts are chosen alike, up to E if one is chosen always: E times
  // the sum over experts of their share of positions and the mean of their
  // probability, of which only the latter has a gradient.
  at::Tensor imbalance;
  std::vector<int64_t> chosen;  // Of this rank's positions, by expert.
};

MoeResult MoeForward(const at::Tensor& positions, const MoeWeights& weights,
                     const TokenExchange& exchange);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_MOE_LAYER_H_
