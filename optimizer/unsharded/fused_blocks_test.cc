// A fused parameter is updated as the matrices in it would be on their own, bit
// for bit, and its padding might as well not be there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "optimizer/block_layout.h"
#include "optimizer/compute/convert.h"
#include "optimizer/unsharded/unsharded_optimizer.h"
#include "testing/known_spectra.h"
#include "testing/status_matchers.h"
#include "testing/unit_roundoff.h"

namespace muonshard {
namespace {

using testing::IsOk;
using testing::RandomValues;

using Bytes = std::vector<std::byte>;

constexpr int kSteps = 3;

// A parameter with its first values and the gradients of all steps.
struct Weights {
  ParameterSpec spec;
  Bytes values;
  std::vector<Bytes> gradients;
};

Bytes RandomBytes(DataType type, int64_t count, uint64_t seed) {
  const std::vector<double> values = RandomValues(count, seed);
  const std::vector<float> floats(values.begin(), values.end());
  Bytes bytes(floats.size() * ByteWidth(type));
  FromFloat(type, floats, bytes.data());
  return bytes;
}

Weights RandomWeights(std::vector<int64_t> shape, Blocks blocks, DataType type,
                      int32_t fan_out_dimension) {
  Weights weights;
  weights.spec.name = "fused";
  weights.spec.shape = std::move(shape);
  weights.spec.rule = Rule::kMuon;
  weights.spec.dtype = weights.spec.gradient_dtype = type;
  weights.spec.blocks = std::move(blocks);
  weights.spec.fan_out_dimension = fan_out_dimension;
  const int64_t count = ElementCount(weights.spec);
  weights.values = RandomBytes(type, count, 1);
  for (uint64_t step = 0; step < kSteps; ++step) {
    weights.gradients.push_back(RandomBytes(type, count, 2 + step));
  }
  return weights;
}

// Calls `visit(row, col, rows, cols)` for each block; rows count on from one
// matrix of a bank to the next.
void ForEachBlock(
    const ParameterSpec& spec,
    const std::function<void(int64_t, int64_t, int64_t, int64_t)>& visit) {
  const int64_t cols = spec.shape.back();
  const int64_t rows = spec.shape[spec.shape.size() - 2];
  const int64_t bank = spec.shape.size() == 3 ? spec.shape[0] : 1;
  const bool by_row = spec.blocks.dimension == 0;
  for (int64_t matrix = 0; matrix < bank; ++matrix) {
    std::vector<int64_t> sizes = spec.blocks.sizes;
    if (sizes.empty()) sizes = {(by_row ? rows : cols) - spec.blocks.padding};
    int64_t start = 0;
    for (const int64_t size : sizes) {
      visit(matrix * rows + (by_row ? start : 0), by_row ? 0 : start,
            by_row ? size : rows, by_row ? cols : size);
      start += size;
    }
  }
}

// The values of one block of a parameter that is `stride` columns wide.
Bytes Cut(const Bytes& values, DataType type, int64_t stride, int64_t row,
          int64_t col, int64_t rows, int64_t cols) {
  Bytes block;
  const auto width = static_cast<int64_t>(ByteWidth(type));
  for (int64_t i = row; i < row + rows; ++i) {
    const auto begin = values.begin() + (i * stride + col) * width;
    block.insert(block.end(), begin, begin + cols * width);
  }
  return block;
}

// Each block of `values`, which are of a parameter like `spec`.
std::vector<Bytes> BlocksOf(const ParameterSpec& spec, const Bytes& values) {
  std::vector<Bytes> blocks;
  ForEachBlock(spec, [&](int64_t row, int64_t col, int64_t rows, int64_t cols) {
    blocks.push_back(
        Cut(values, spec.dtype, spec.shape.back(), row, col, rows, cols));
  });
  return blocks;
}

// The blocks of `fused` as parameters of their own.
std::vector<Weights> Separate(const Weights& fused) {
  std::vector<Weights> separate;
  ForEachBlock(fused.spec, [&](int64_t, int64_t, int64_t rows, int64_t cols) {
    Weights block;
    block.spec = fused.spec;
    block.spec.name = absl::StrCat("block.", separate.size());
    block.spec.shape = {rows, cols};
    block.spec.blocks = {};
    separate.push_back(block);
  });
  const auto spread = [&](const Bytes& values, const auto& take) {
    const std::vector<Bytes> blocks = BlocksOf(fused.spec, values);
    for (size_t i = 0; i < blocks.size(); ++i) take(separate[i], blocks[i]);
  };
  spread(fused.values,
         [](Weights& to, const Bytes& block) { to.values = block; });
  for (const Bytes& gradient : fused.gradients) {
    spread(gradient, [](Weights& to, const Bytes& block) {
      to.gradients.push_back(block);
    });
  }
  return separate;
}

struct Trained {
  std::vector<Bytes> values;
  std::vector<double> norms;  // By step.
  std::vector<std::vector<float>> momentum;
};

Trained Train(const std::vector<Weights>& weights,
              const OptimizerOptions& options, double clip_norm) {
  std::vector<ParameterSpec> specs;
  std::vector<Bytes> values;
  for (const Weights& w : weights) {
    specs.push_back(w.spec);
    values.push_back(w.values);
  }
  auto optimizer = UnshardedOptimizer::Create(
      specs, options, std::vector<int64_t>(specs.size(), 1), values);
  EXPECT_THAT(optimizer, IsOk());
  Trained trained;
  for (size_t step = 0; step < kSteps; ++step) {
    UnshardedStepInput input;
    input.options.clip_norm = clip_norm;
    for (const Weights& w : weights) {
      input.gradients.push_back({.dtype = w.spec.gradient_dtype,
                                 .groups = {{{w.gradients[step].data()}}},
                                 .group_lanes = {}});
    }
    const auto outcome = optimizer->Step(input);
    EXPECT_THAT(outcome, IsOk());
    EXPECT_TRUE(outcome->updated);
    trained.norms.push_back(outcome->gradient_norm);
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto value = optimizer->parameter(i);
    trained.values.emplace_back(value.begin(), value.end());
    const auto momentum = optimizer->first_moment(i);
    trained.momentum.emplace_back(momentum.begin(), momentum.end());
  }
  return trained;
}

struct Layout {
  std::string name;
  std::vector<int64_t> shape;
  Blocks blocks;
};

Blocks Qkv(bool gated, AttentionBlocks by, const CutDimension& cut) {
  const auto blocks = QkvBlocks(
      {.query_heads = 4, .key_heads = 2, .head_size = 3, .gated = gated}, by,
      cut);
  EXPECT_THAT(blocks, IsOk());
  return *blocks;
}

// Without padding. Of the attention: 8 heads of 3, or 12 with a gate.
std::vector<Layout> Layouts() {
  const auto projection = AttentionBlocks::kByProjection;
  const auto head = AttentionBlocks::kByHead;
  return {
      {"qkv", {24, 10}, Qkv(false, projection, {.dimension = 0, .size = 24})},
      {"qkv by head", {24, 10}, Qkv(false, head, {.dimension = 0, .size = 24})},
      {"gated", {36, 10}, Qkv(true, projection, {.dimension = 0, .size = 36})},
      {"gated, columns",
       {10, 36},
       Qkv(true, projection, {.dimension = 1, .size = 36})},
      {"by head, columns",
       {10, 36},
       Qkv(true, head, {.dimension = 1, .size = 36})},
      {"gate and up", {14, 9}, *GateUpBlocks({.dimension = 0, .size = 14})},
      {"heads", {9, 14}, *HeadBlocks(7, {.dimension = 1, .size = 14})},
      {"bank", {3, 6, 8}, {}},
      {"bank of gate and up",
       {3, 6, 8},
       *GateUpBlocks({.dimension = 1, .size = 8})},
  };
}

std::vector<OptimizerOptions> Variants() {
  OptimizerOptions plain;
  plain.muon.learning_rate = 0.1;
  OptimizerOptions other = plain;
  other.muon.nesterov = false;
  other.muon.scale = MuonScale::kFanRatio;
  other.muon.weight_decay_kind = WeightDecay::kCautious;
  other.muon.row_normalization = true;
  return {plain, other};
}

TEST(FusedBlocksTest, AFusedParameterIsUpdatedAsItsMatricesAre) {
  for (const Layout& layout : Layouts()) {
    for (const DataType type : {DataType::kF32, DataType::kBF16}) {
      for (const int32_t fan_out_dimension : {0, 1}) {
        for (const OptimizerOptions& options : Variants()) {
          SCOPED_TRACE(absl::StrCat(layout.name, " ", DataTypeName(type), " ",
                                    fan_out_dimension, " ",
                                    options.muon.row_normalization));
          const Weights fused = RandomWeights(layout.shape, layout.blocks, type,
                                              fan_out_dimension);
          const Trained whole = Train({fused}, options, 0);
          const Trained parts = Train(Separate(fused), options, 0);
          EXPECT_EQ(BlocksOf(fused.spec, whole.values[0]), parts.values);
          for (size_t step = 0; step < kSteps; ++step) {
            // The same squares, in sums of 128 that are cut elsewhere.
            EXPECT_NEAR(whole.norms[step], parts.norms[step],
                        128 * testing::UnitRoundoff(DataType::kF64) *
                            parts.norms[step]);
          }
        }
      }
    }
  }
}

TEST(FusedBlocksTest, BlocksOfRowsAreClippedAsTheirMatricesAre) {
  for (const Layout& layout : Layouts()) {
    if (layout.blocks.dimension == 1) continue;
    SCOPED_TRACE(layout.name);
    const Weights fused =
        RandomWeights(layout.shape, layout.blocks, DataType::kF32, 0);
    const Trained whole = Train({fused}, {}, 0.5);
    const Trained parts = Train(Separate(fused), {}, 0.5);
    EXPECT_EQ(BlocksOf(fused.spec, whole.values[0]), parts.values);
    EXPECT_EQ(whole.norms, parts.norms);
  }
}

// `narrow` with `padding` rows or columns more, whose values are `value` and
// whose gradients are `gradient`. Both are f32.
Weights Padded(const Weights& narrow, int64_t padding, float value,
               float gradient) {
  Weights wide = narrow;
  wide.spec.blocks.padding = padding;
  const size_t matrix = narrow.spec.shape.size() - 2;
  const bool by_row = narrow.spec.blocks.dimension == 0;
  wide.spec.shape[matrix + (by_row ? 0 : 1)] += padding;
  const auto pad = [&](const Bytes& values, float with) {
    // Rows of padding follow a matrix, columns of padding a row.
    const auto run = static_cast<size_t>(
        narrow.spec.shape.back() * (by_row ? narrow.spec.shape[matrix] : 1));
    const auto run_padding =
        static_cast<size_t>(padding * (by_row ? narrow.spec.shape.back() : 1));
    std::vector<float> floats(values.size() / sizeof(float));
    std::memcpy(floats.data(), values.data(), values.size());
    std::vector<float> padded;
    for (size_t i = 0; i < floats.size(); i += run) {
      padded.insert(padded.end(), floats.data() + i, floats.data() + i + run);
      padded.insert(padded.end(), run_padding, with);
    }
    Bytes result(padded.size() * sizeof(float));
    std::memcpy(result.data(), padded.data(), result.size());
    return result;
  };
  wide.values = pad(narrow.values, value);
  for (Bytes& bytes : wide.gradients) bytes = pad(bytes, gradient);
  return wide;
}

TEST(FusedBlocksTest, PaddingChangesNothingAndKeepsItsBits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("7");
  for (const Layout& layout : Layouts()) {
    const bool by_row = layout.blocks.dimension == 0;
    // Columns of padding move the cuts between sums of squares.
    const double clip_norm = by_row ? 0.5 : 0;
    for (const OptimizerOptions& options : Variants()) {
      const Weights narrow =
          RandomWeights(layout.shape, layout.blocks, DataType::kF32, 0);
      const Trained expected = Train({narrow}, options, clip_norm);
      for (const float garbage : {0.0f, 1e30f, kInfinity, nan}) {
        SCOPED_TRACE(absl::StrCat(layout.name, " ", garbage));
        const Weights wide = Padded(narrow, 3, garbage, garbage);
        const Trained trained = Train({wide}, options, clip_norm);
        EXPECT_EQ(BlocksOf(wide.spec, trained.values[0]),
                  BlocksOf(narrow.spec, expected.values[0]));
        for (size_t step = 0; step < kSteps; ++step) {
          EXPECT_NEAR(trained.norms[step], expected.norms[step],
                      by_row ? 0
                             : 128 * testing::UnitRoundoff(DataType::kF64) *
                                   expected.norms[step]);
        }
        // What lies between the new blocks is what lay there.
        Weights after = narrow;
        after.values = expected.values[0];
        EXPECT_EQ(Padded(after, 3, garbage, 0).values, trained.values[0]);
        for (const float momentum : trained.momentum[0]) {
          EXPECT_LT(std::abs(momentum), 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace muonshard
