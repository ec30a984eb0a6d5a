#include "optimizer/compute/update.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "optimizer/compute/convert.h"
#include "optimizer/compute/newton_schulz.h"
#include "optimizer/compute/row_normalization.h"

namespace muonshard {
namespace {

// Elements go through these buffers, one tile at a time: loops of a constant
// length over buffers of their own become vector code at any optimization
// level that has it, and treat the last elements of a range like all others.
constexpr int64_t kTileCount = 256;

struct Tile {
  float gradient[kTileCount] = {};
  float first[kTileCount] = {};   // Momentum, or AdamW's first moment.
  float second[kTileCount] = {};  // Muon's direction, or the second moment.
  float weight[kTileCount] = {};
};

const std::byte* ElementAt(DataType type, const void* base, int64_t index) {
  return static_cast<const std::byte*>(base) +
         static_cast<size_t>(index) * ByteWidth(type);
}

std::byte* ElementAt(DataType type, void* base, int64_t index) {
  return static_cast<std::byte*>(base) +
         static_cast<size_t>(index) * ByteWidth(type);
}

void Copy(const float* from, int64_t count, float* to) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

// The part of a tile that a range fills.
std::span<float> Front(float (&tile)[kTileCount], int64_t count) {
  return {tile, static_cast<size_t>(count)};
}

// Moves the momentum and writes the direction to orthogonalize.
void MoveMomentum(const MuonOptions& options, double gradient_factor,
                  DataType gradient_dtype, const void* gradient,
                  std::span<float> momentum, float* direction) {
  const float keep = static_cast<float>(options.momentum);
  const float take = static_cast<float>(1.0 - options.momentum);
  const float factor = static_cast<float>(gradient_factor);
  const int64_t count = static_cast<int64_t>(momentum.size());
  Tile tile;
  for (int64_t start = 0; start < count; start += kTileCount) {
    const int64_t length = std::min(kTileCount, count - start);
    ToFloat(gradient_dtype, ElementAt(gradient_dtype, gradient, start),
            Front(tile.gradient, length));
    Copy(momentum.data() + start, length, tile.first);
    for (int64_t i = 0; i < kTileCount; ++i) {
      const float taken = take * (factor * tile.gradient[i]);
      tile.first[i] = keep * tile.first[i] + taken;
      tile.second[i] = taken + keep * tile.first[i];
    }
    Copy(tile.first, length, momentum.data() + start);
    Copy(options.nesterov ? tile.second : tile.first, length,
         direction + start);
  }
}

// What the direction of a block does to its weights.
struct BlockFactors {
  float decay = 1;
  float decay_against = 1;  // Of weights of the other sign.
  float rate = 0;
};

// out = parameter * decay - rate * direction, over a contiguous run.
void ApplyDirection(const BlockFactors& factors, const float* direction,
                    int64_t count, DataType dtype, const void* parameter,
                    void* out) {
  Tile tile;
  for (int64_t start = 0; start < count; start += kTileCount) {
    const int64_t length = std::min(kTileCount, count - start);
    Copy(direction + start, length, tile.second);
    ToFloat(dtype, ElementAt(dtype, parameter, start),
            Front(tile.weight, length));
    for (int64_t i = 0; i < kTileCount; ++i) {
      const float weight = tile.weight[i];
      const float step = tile.second[i];
      // Of other signs. Their product could vanish.
      const bool against =
          std::min(weight, step) < 0 && std::max(weight, step) > 0;
      tile.weight[i] =
          weight * (against ? factors.decay_against : factors.decay) -
          factors.rate * step;
    }
    FromFloat(dtype, Front(tile.weight, length), ElementAt(dtype, out, start));
  }
}

double ScaleOf(const MuonOptions& options, double fan_out, double fan_in) {
  switch (options.scale) {
    case MuonScale::kSpectral:
      return std::sqrt(std::max(1.0, fan_out / fan_in));
    case MuonScale::kMatchAdamWRms:
      return options.rms_factor * std::sqrt(std::max(fan_out, fan_in));
    case MuonScale::kFanRatio:
      return std::sqrt(fan_out / fan_in);
    case MuonScale::kNone:
      return 1;
  }
  return 1;
}

float DecayFactor(const UpdateFactors& factors) {
  return static_cast<float>(1.0 - factors.learning_rate * factors.weight_decay);
}

BlockFactors FactorsOf(const MuonUnit& unit, int64_t block_cols,
                       const MuonOptions& options,
                       const UpdateFactors& factors) {
  const double rows = static_cast<double>(unit.rows);
  const double cols = static_cast<double>(block_cols);
  const double scale = unit.fan_out_dimension == 0
                           ? ScaleOf(options, rows, cols)
                           : ScaleOf(options, cols, rows);
  const float decay = DecayFactor(factors);
  const bool cautious = options.weight_decay_kind == WeightDecay::kCautious;
  return {.decay = decay,
          .decay_against = cautious ? 1.0f : decay,
          .rate = static_cast<float>(factors.learning_rate * scale)};
}

// Calls `visit(first_column, cols)` for each block of columns.
template <typename Visit>
void ForEachBlock(const MuonUnit& unit, Visit visit) {
  if (unit.column_blocks.empty()) {
    visit(int64_t{0}, unit.cols - unit.padding_columns);
    return;
  }
  int64_t first_column = 0;
  for (const int64_t cols : unit.column_blocks) {
    visit(first_column, cols);
    first_column += cols;
  }
}

// Calls `visit(offset_in_unit, offset_in_block, count)` for each contiguous run
// of the block of `cols` columns: all of it, or row by row.
template <typename Visit>
void ForEachRun(const MuonUnit& unit, int64_t first_column, int64_t cols,
                Visit visit) {
  if (cols == unit.cols) {
    visit(int64_t{0}, int64_t{0}, unit.rows * cols);
    return;
  }
  for (int64_t row = 0; row < unit.rows; ++row) {
    visit(row * unit.cols + first_column, row * cols, cols);
  }
}

void CopyPadding(const MuonUnit& unit, DataType dtype, const void* parameter,
                 void* out) {
  if (parameter == out) return;
  const size_t bytes =
      static_cast<size_t>(unit.padding_columns) * ByteWidth(dtype);
  for (int64_t row = 1; bytes > 0 && row <= unit.rows; ++row) {
    const int64_t start = row * unit.cols - unit.padding_columns;
    std::memcpy(ElementAt(dtype, out, start),
                ElementAt(dtype, parameter, start), bytes);
  }
}

}  // namespace

int64_t MuonRowMomentCount(const MuonUnit& unit, const MuonOptions& options) {
  int64_t count = 0;
  if (!options.row_normalization) return count;
  ForEachBlock(unit, [&](int64_t, int64_t cols) {
    count += unit.fan_out_dimension == 0 ? unit.rows : cols;
  });
  return count;
}

int64_t MuonWorkspaceCount(const MuonUnit& unit, const MuonOptions& options) {
  // Counts grow with the number of columns, so the widest block decides.
  int64_t widest = 0;
  ForEachBlock(unit, [&widest](int64_t, int64_t cols) {
    widest = std::max(widest, cols);
  });
  return unit.rows * widest +
         NewtonSchulzWorkspaceCount(unit.rows, widest, options);
}

void ClearPadding(const MuonUnit& unit, DataType gradient_dtype,
                  void* gradient) {
  const size_t bytes =
      static_cast<size_t>(unit.padding_columns) * ByteWidth(gradient_dtype);
  for (int64_t row = 1; bytes > 0 && row <= unit.rows; ++row) {
    const int64_t start = row * unit.cols - unit.padding_columns;
    std::memset(ElementAt(gradient_dtype, gradient, start), 0, bytes);
  }
}

void MuonUpdate(const MuonUnit& unit, const MuonOptions& options,
                const UpdateFactors& factors, DataType gradient_dtype,
                const void* gradient, MuonState state, DataType parameter_dtype,
                const void* parameter, void* out, std::span<float> workspace) {
  ForEachBlock(unit, [&](int64_t first_column, int64_t cols) {
    const std::span<float> direction =
        workspace.first(static_cast<size_t>(unit.rows * cols));
    ForEachRun(unit, first_column, cols,
               [&](int64_t in_unit, int64_t in_block, int64_t count) {
                 MoveMomentum(
                     options, factors.gradient_factor, gradient_dtype,
                     ElementAt(gradient_dtype, gradient, in_unit),
                     state.momentum.subspan(static_cast<size_t>(in_unit),
                                            static_cast<size_t>(count)),
                     direction.data() + in_block);
               });
    NewtonSchulz(direction, unit.rows, cols, options,
                 workspace.subspan(direction.size()), direction);
    if (options.row_normalization) {
      const NeuronBlock block = {.matrix = direction,
                                 .rows = unit.rows,
                                 .cols = cols,
                                 .fan_out_dimension = unit.fan_out_dimension};
      const auto count = static_cast<size_t>(block.neuron_count());
      NormalizeRows(block, options.row_beta2, options.epsilon,
                    state.row_moments.first(count));
      state.row_moments = state.row_moments.subspan(count);
    }
    const BlockFactors block_factors = FactorsOf(unit, cols, options, factors);
    ForEachRun(unit, first_column, cols,
               [&](int64_t in_unit, int64_t in_block, int64_t count) {
                 ApplyDirection(block_factors, direction.data() + in_block,
                                count, parameter_dtype,
                                ElementAt(parameter_dtype, parameter, in_unit),
                                ElementAt(parameter_dtype, out, in_unit));
               });
  });
  CopyPadding(unit, parameter_dtype, parameter, out);
}

void AdamWUpdate(const AdamWOptions& options, const UpdateFactors& factors,
                 DataType gradient_dtype, const void* gradient,
                 std::span<float> first_moment, std::span<float> second_moment,
                 DataType parameter_dtype, const void* parameter, void* out) {
  const double step = static_cast<double>(factors.step);
  const float gradient_factor = static_cast<float>(factors.gradient_factor);
  const float decay = DecayFactor(factors);
  const float keep1 = static_cast<float>(options.beta1);
  const float take1 = static_cast<float>(1.0 - options.beta1);
  const float keep2 = static_cast<float>(options.beta2);
  const float take2 = static_cast<float>(1.0 - options.beta2);
  const float rate = static_cast<float>(factors.learning_rate /
                                        (1.0 - std::pow(options.beta1, step)));
  const float root_correction =
      static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(options.beta2, step)));
  const float epsilon = static_cast<float>(options.epsilon);
  const int64_t count = static_cast<int64_t>(first_moment.size());
  Tile tile;
  for (int64_t start = 0; start < count; start += kTileCount) {
    const int64_t length = std::min(kTileCount, count - start);
    ToFloat(gradient_dtype, ElementAt(gradient_dtype, gradient, start),
            Front(tile.gradient, length));
    ToFloat(parameter_dtype, ElementAt(parameter_dtype, parameter, start),
            Front(tile.weight, length));
    Copy(first_moment.data() + start, length, tile.first);
    Copy(second_moment.data() + start, length, tile.second);
    for (int64_t i = 0; i < kTileCount; ++i) {
      const float gradient_value = gradient_factor * tile.gradient[i];
      tile.first[i] = keep1 * tile.first[i] + take1 * gradient_value;
      tile.second[i] =
          keep2 * tile.second[i] + take2 * (gradient_value * gradient_value);
      const float divisor =
          std::sqrt(tile.second[i]) * root_correction + epsilon;
      tile.weight[i] =
          tile.weight[i] * decay - rate * (tile.first[i] / divisor);
    }
    Copy(tile.first, length, first_moment.data() + start);
    Copy(tile.second, length, second_moment.data() + start);
    FromFloat(parameter_dtype, Front(tile.weight, length),
              ElementAt(parameter_dtype, out, start));
  }
}

}  // namespace muonshard
