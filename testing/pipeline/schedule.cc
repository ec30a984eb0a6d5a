#include "testing/pipeline/schedule.h"

#include <algorithm>

namespace muonshard::testing {
namespace {

// The n-th passage of a direction: chunks take turns, P micro-batches at a
// time. Backwards go through the chunks from the last.
Passage Nth(const PipelineShape& shape, bool forward, int32_t n) {
  const int32_t round = shape.stages * shape.chunks;
  const int32_t turn = n % round / shape.stages;
  if (shape.chunks == 1) return {forward, 0, n};
  return {forward, forward ? turn : shape.chunks - 1 - turn,
          n / round * shape.stages + n % shape.stages};
}

}  // namespace

std::vector<Passage> OneForwardOneBackward(const PipelineShape& shape,
                                           int32_t stage) {
  const int32_t total = shape.micro_batches * shape.chunks;
  const int32_t after = shape.stages - stage - 1;
  const int32_t warm_up = std::min(
      total, shape.chunks == 1 ? after
                               : 2 * after + (shape.chunks - 1) * shape.stages);
  std::vector<Passage> order;
  for (int32_t n = 0; n < warm_up; ++n) order.push_back(Nth(shape, true, n));
  for (int32_t n = 0; n < total; ++n) {
    if (warm_up + n < total) order.push_back(Nth(shape, true, warm_up + n));
    order.push_back(Nth(shape, false, n));
  }
  return order;
}

}  // namespace muonshard::testing
