// Sends the rows of a matrix to other ranks, as a function that autograd knows:
// the gradients of the rows travel the same way back.
//
// Ordering   Every rank of the group calls the same methods in the same order.
//            Backwards follow, in the reverse order, on every rank.
// Threads    One task at a time.
// Memory     An exchange outlives the graphs that its results are in.
// Numerics   Rows and gradients arrive with the bits that were sent, in the
//            order of the ranks that sent them.
// Errors     What the group returns is thrown, as a StatusException, also in
//            a backward.

#ifndef TOOLS_TRAINER_TOKEN_EXCHANGE_H_
#define TOOLS_TRAINER_TOKEN_EXCHANGE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/collective.h"

namespace muonshard {

// One entry per rank.
struct RowCounts {
  std::vector<int64_t> sent;
  std::vector<int64_t> received;
};

class TokenExchange {
 public:
  // `group` is borrowed; null: this rank alone. Each call takes `timeout` at
  // most.
  TokenExchange(Collective* group, absl::Duration timeout);

  int32_t size() const { return group_ == nullptr ? 1 : group_->size(); }

  // Sends the i-th of size() equal runs of `counts` to rank i; returns what
  // came, the i-th run from rank i.
  std::vector<int64_t> Counts(std::vector<int64_t> counts) const;

  // Sends counts.sent[i] of the f32 `rows` [sum(sent), width] to rank i, in
  // order; returns [sum(received), width].
  at::Tensor Rows(const at::Tensor& rows, RowCounts counts) const;

  // The same outside autograd. `label` names the call in errors.
  at::Tensor Move(const at::Tensor& rows, const RowCounts& counts,
                  absl::string_view label) const;

 private:
  CallOptions OptionsOf(absl::string_view label) const;

  Collective* const group_;
  const absl::Duration timeout_;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_TOKEN_EXCHANGE_H_
