// The update rules, on host memory: gradient and state in, new parameter and
// new state out.
//
// Both rules read a gradient of any floating type, compute in f32, and write
// the parameter in its own type, rounded once to nearest even. State is f32.
//
// Muon, for a unit W [rows, cols] with gradient g and momentum M:
//   g' = gradient_factor * g
//   M  = momentum * M + (1 - momentum) * g'
//   u  = nesterov ? (1 - momentum) * g' + momentum * M : M
//   O  = NewtonSchulz(u), each block of columns on its own
//   O  = NormalizeRows(O), if row_normalization; see row_normalization.h
//   W  = W * (1 - lr * decay) - lr * scale(fan_out, fan_in of the block) * O
// Under WeightDecay::kCautious a weight decays unless it is of the other sign
// than its element of O, which is what the update subtracts; where either is
// zero it decays (Chen et al., "Cautious Weight Decay", arXiv 2510.12402, which
// asks for u w >= 0).
// AdamW, element by element, at step t >= 1:
//   m  = beta1 m + (1 - beta1) g';  v = beta2 v + (1 - beta2) g'^2
//   w  = w (1 - lr * decay)
//        - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// Columns of padding keep their values, and nothing reads their gradient.
//
// Numerics   An element's bits depend on its own inputs (Muon: on its unit's)
//            and not on where a range starts or ends or on alignment. Factors
//            are made in fp64 and rounded to f32 once.
// Threads    Safe to call at once on buffers that do not overlap.

#ifndef OPTIMIZER_COMPUTE_UPDATE_H_
#define OPTIMIZER_COMPUTE_UPDATE_H_

#include <cstdint>
#include <span>

#include "collectives/data_type.h"
#include "optimizer/options.h"

namespace muonshard {

struct MuonUnit {
  int64_t rows = 0;
  int64_t cols = 0;
  // Blocks of columns; empty for one block of all but the padding.
  std::span<const int64_t> column_blocks;
  // The last columns, which are in no block.
  int64_t padding_columns = 0;
  int32_t fan_out_dimension = 0;  // As in ParameterSpec.
};

// What a unit keeps from step to step; zero before its first.
struct MuonState {
  std::span<float> momentum;     // rows * cols
  std::span<float> row_moments;  // MuonRowMomentCount
};

// What differs from step to step.
struct UpdateFactors {
  double learning_rate = 0;
  double weight_decay = 0;
  double gradient_factor = 1;  // Multiplies the gradient.
  int64_t step = 1;            // Of this parameter, from 1; AdamW's t.
};

// Of one unit: one for each row of each block (each column, where fan-out is
// dimension 1) if rows are normalized, else none.
int64_t MuonRowMomentCount(const MuonUnit& unit, const MuonOptions& options);

// In floats, for one unit.
int64_t MuonWorkspaceCount(const MuonUnit& unit, const MuonOptions& options);

// Sets the gradient of padding columns to zero, so that no norm sees it.
void ClearPadding(const MuonUnit& unit, DataType gradient_dtype,
                  void* gradient);

// `gradient` and `parameter` hold rows * cols elements of their types. `out`
// takes the new parameter, of the type of `parameter`, and may be the same
// buffer.
void MuonUpdate(const MuonUnit& unit, const MuonOptions& options,
                const UpdateFactors& factors, DataType gradient_dtype,
                const void* gradient, MuonState state, DataType parameter_dtype,
                const void* parameter, void* out, std::span<float> workspace);

// `first_moment` and `second_moment` give the count of elements.
void AdamWUpdate(const AdamWOptions& options, const UpdateFactors& factors,
                 DataType gradient_dtype, const void* gradient,
                 std::span<float> first_moment, std::span<float> second_moment,
                 DataType parameter_dtype, const void* parameter, void* out);

}  // namespace muonshard

#endif  // OPTIMIZER_COMPUTE_UPDATE_H_
