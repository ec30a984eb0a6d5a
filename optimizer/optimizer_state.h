// What an optimizer keeps of a parameter on one rank, to be read: by tests, and
// by whoever writes a checkpoint.
//
// In this file
//   piece   a run of the parameter that this rank updates: a matrix that it
//           owns, or its range of an element-wise parameter. Ranks of one
//           replica have different pieces, and together all but padding.
//
// Memory     Borrowed from the optimizer, until its next Step.

#ifndef OPTIMIZER_OPTIMIZER_STATE_H_
#define OPTIMIZER_OPTIMIZER_STATE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace muonshard {

struct StatePiece {
  int64_t parameter_offset = 0;  // In elements.
  int64_t count = 0;             // Elements.
  // `count` of each that is not empty.
  std::span<const float> first;   // Momentum, or AdamW's first moment.
  std::span<const float> second;  // AdamW's second moment.
  // Of a narrow parameter with master weights, from its first update on.
  std::span<const float> master;
  // Of a matrix whose rows are normalized, one for each row of each block; see
  // MuonRowMomentCount.
  std::span<const float> row_moments;
};

struct ParameterState {
  int64_t step_count = 0;  // Steps that updated the parameter.
  std::vector<StatePiece> pieces;
};

}  // namespace muonshard

#endif  // OPTIMIZER_OPTIMIZER_STATE_H_
