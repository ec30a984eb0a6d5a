#include "testing/recovery/rank_copy.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace muonshard::testing {
namespace {

std::vector<float> Copied(std::span<const float> values) {
  return {values.begin(), values.end()};
}

}  // namespace

StateCopy::StateCopy(const ParameterState& state)
    : step_count_(state.step_count) {
  for (const StatePiece& piece : state.pieces) {
    pieces_.push_back({.parameter_offset = piece.parameter_offset,
                       .count = piece.count,
                       .first = Copied(piece.first),
                       .second = Copied(piece.second),
                       .master = Copied(piece.master),
                       .row_moments = Copied(piece.row_moments)});
  }
}

ParameterState StateCopy::state() const {
  ParameterState state = {.step_count = step_count_, .pieces = {}};
  for (const Piece& piece : pieces_) {
    state.pieces.push_back({.parameter_offset = piece.parameter_offset,
                            .count = piece.count,
                            .first = piece.first,
                            .second = piece.second,
                            .master = piece.master,
                            .row_moments = piece.row_moments});
  }
  return state;
}

absl::StatusOr<RankCopy> CopyOfRank(
    int64_t step, const std::vector<ParameterBytes>& parameters,
    const GradScaler& scaler, ShardedOptimizer& optimizer) {
  RankCopy copy = {.step = step,
                   .parameters = parameters,
                   .states = {},
                   .scaler = scaler.state()};
  for (size_t p = 0; p < parameters.size(); ++p) {
    absl::StatusOr<ParameterState> state =
        optimizer.State(static_cast<int32_t>(p));
    if (!state.ok()) return state.status();
    copy.states.emplace_back(*state);
  }
  return copy;
}

absl::Status RestoreRank(const RankCopy& copy,
                         std::vector<ParameterBytes>& parameters,
                         GradScaler& scaler, ShardedOptimizer& optimizer) {
  for (size_t p = 0; p < parameters.size(); ++p) {
    // Into the memory that the optimizer is bound to.
    std::copy(copy.parameters[p].begin(), copy.parameters[p].end(),
              parameters[p].begin());
    if (parameters[p].empty()) continue;
    absl::Status s =
        optimizer.RestoreState(static_cast<int32_t>(p), copy.states[p].state());
    if (!s.ok()) return s;
  }
  if (absl::Status s = optimizer.RestoreStep(copy.step); !s.ok()) return s;
  return scaler.Load(copy.scaler);
}

}  // namespace muonshard::testing
