#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "optimizer/compute/muon_case.h"

namespace muonshard {
namespace {

TEST(MuonBlocksTest, ColumnBlocksAreUpdatedAsMatricesOfTheirOwn) {
  constexpr int64_t kRows = 20;
  const std::vector<int64_t> blocks = {7, 30, 1};
  MuonCase whole;
  whole.unit = {.rows = kRows,
                .cols = 38,
                .column_blocks = blocks,
                .fan_out_dimension = 0};
  whole.factors = {.learning_rate = 0.1,
                   .weight_decay = 0.1,
                   .gradient_factor = 0.7,
                   .step = 1};
  whole.gradient = Wave(kRows * 38, 1.0);
  whole.momentum = Wave(kRows * 38, 0.3);
  whole.parameter = Wave(kRows * 38, 0.7);
  MuonCase before = whole;
  const std::vector<float> result = Update(whole);

  int64_t col = 0;
  for (const int64_t cols : blocks) {
    const auto cut = [&](const std::vector<float>& values) {
      std::vector<float> block;
      for (int64_t row = 0; row < kRows; ++row) {
        const auto start = values.begin() + row * 38 + col;
        block.insert(block.end(), start, start + cols);
      }
      return block;
    };
    MuonCase block = before;
    block.unit = {.rows = kRows,
                  .cols = cols,
                  .column_blocks = {},
                  .fan_out_dimension = 0};
    block.gradient = cut(before.gradient);
    block.momentum = cut(before.momentum);
    block.parameter = cut(before.parameter);
    EXPECT_EQ(Update(block), cut(result)) << cols;
    EXPECT_EQ(block.momentum, cut(whole.momentum)) << cols;
    col += cols;
  }
}

// A unit of three columns of padding behind two blocks, whose gradient there is
// `garbage`.
MuonCase PaddedCase(std::span<const int64_t> blocks, float garbage) {
  constexpr size_t kRows = 5;
  constexpr size_t kCols = 12;
  MuonCase test;
  test.unit = {.rows = kRows,
               .cols = kCols,
               .column_blocks = blocks,
               .padding_columns = 3};
  test.factors = {.learning_rate = 0.1,
                  .weight_decay = 0.1,
                  .gradient_factor = 0.7,
                  .step = 1};
  test.gradient = Wave(kRows * kCols, 1.0);
  test.momentum.assign(kRows * kCols, 0.0f);
  test.parameter = Wave(kRows * kCols, 0.7);
  for (size_t i = 0; i < test.gradient.size(); ++i) {
    if (i % kCols >= kCols - 3) test.gradient[i] = garbage;
  }
  return test;
}

// Without the last `padding` of every `cols` values.
std::vector<float> WithoutPadding(const std::vector<float>& values, size_t cols,
                                  size_t padding) {
  std::vector<float> kept;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % cols < cols - padding) kept.push_back(values[i]);
  }
  return kept;
}

TEST(MuonBlocksTest, PaddingColumnsChangeNothingAndKeepTheirValues) {
  const std::vector<int64_t> two_blocks = {4, 5};
  for (const std::span<const int64_t> blocks :
       {std::span<const int64_t>(), std::span<const int64_t>(two_blocks)}) {
    MuonCase narrow = PaddedCase(blocks, 0);
    narrow.unit.cols = 9;
    narrow.unit.padding_columns = 0;
    narrow.gradient = WithoutPadding(narrow.gradient, 12, 3);
    narrow.momentum = WithoutPadding(narrow.momentum, 12, 3);
    narrow.parameter = WithoutPadding(narrow.parameter, 12, 3);
    const std::vector<float> expected = Update(narrow);
    for (const float garbage : {0.0f, 1e30f, std::nanf("")}) {
      MuonCase padded = PaddedCase(blocks, garbage);
      const std::vector<float> before = padded.parameter;
      const std::vector<float> result = Update(padded);
      EXPECT_EQ(WithoutPadding(result, 12, 3), expected) << garbage;
      EXPECT_EQ(WithoutPadding(padded.momentum, 12, 3), narrow.momentum);
      for (size_t i = 0; i < result.size(); ++i) {
        if (i % 12 < 9) continue;
        EXPECT_EQ(result[i], before[i]) << i;
        EXPECT_EQ(padded.momentum[i], 0) << i;
      }
    }
  }
}

TEST(MuonBlocksTest, PaddingIsCopiedToAnotherBufferBitForBit) {
  const MuonCase test = PaddedCase({}, 0);
  std::vector<uint16_t> parameter(test.parameter.size());
  // Among them a NaN that asks for a trap, which no conversion would keep.
  for (size_t i = 0; i < parameter.size(); ++i) {
    parameter[i] = i % 12 < 9 ? uint16_t{0x3c00} : uint16_t{0x7c01};
  }
  std::vector<uint16_t> out(parameter.size(), 0);
  std::vector<float> momentum = test.momentum;
  std::vector<float> workspace(
      static_cast<size_t>(MuonWorkspaceCount(test.unit, test.options)));
  MuonUpdate(test.unit, test.options, test.factors, DataType::kF32,
             test.gradient.data(), {.momentum = momentum, .row_moments = {}},
             DataType::kF16, parameter.data(), out.data(), workspace);
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i] == 0x7c01, i % 12 >= 9) << i;
  }
}

TEST(ClearPaddingTest, ClearsPaddingColumnsAlone) {
  const MuonCase test = PaddedCase({}, std::nanf(""));
  for (const DataType type :
       {DataType::kF32, DataType::kBF16, DataType::kF16}) {
    Bytes gradient = As(type, test.gradient);
    ClearPadding(test.unit, type, gradient.data());
    const std::vector<float> values = Values(type, gradient);
    const std::vector<float> before = Rounded(type, test.gradient);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], i % 12 < 9 ? before[i] : 0) << i;
    }
  }
}

TEST(MuonBlocksTest, RowsOfEachBlockAreNormalizedOnTheirOwn) {
  const std::vector<int64_t> blocks = {2, 3};
  for (const int32_t fan_out_dimension : {0, 1}) {
    MuonCase whole;
    whole.unit = {.rows = 4,
                  .cols = 6,
                  .column_blocks = blocks,
                  .padding_columns = 1,
                  .fan_out_dimension = fan_out_dimension};
    whole.options = NormalizeOnly();
    whole.options.row_normalization = true;
    whole.options.row_beta2 = 0.25;
    whole.factors = {.learning_rate = 0.5,
                     .weight_decay = 0.5,
                     .gradient_factor = 1,
                     .step = 1};
    whole.gradient = Wave(24, 1.0);
    whole.momentum = Wave(24, 0.3);
    whole.parameter = Wave(24, 0.7);
    const int64_t count = MuonRowMomentCount(whole.unit, whole.options);
    EXPECT_EQ(count, fan_out_dimension == 0 ? 2 * 4 : 2 + 3);
    whole.row_moments = Wave(static_cast<size_t>(count), 0.1);
    const MuonCase before = whole;
    const std::vector<float> result = Update(whole);

    int64_t col = 0;
    auto moment = before.row_moments.begin();
    auto new_moment = whole.row_moments.begin();
    for (const int64_t cols : blocks) {
      const auto cut = [&](const std::vector<float>& values) {
        std::vector<float> block;
        for (int64_t row = 0; row < 4; ++row) {
          const auto start = values.begin() + row * 6 + col;
          block.insert(block.end(), start, start + cols);
        }
        return block;
      };
      MuonCase block = before;
      block.unit.cols = cols;
      block.unit.column_blocks = {};
      block.unit.padding_columns = 0;
      block.gradient = cut(before.gradient);
      block.momentum = cut(before.momentum);
      block.parameter = cut(before.parameter);
      const int64_t moments = MuonRowMomentCount(block.unit, block.options);
      block.row_moments = {moment, moment + moments};
      EXPECT_EQ(Update(block), cut(result)) << cols;
      EXPECT_EQ(block.row_moments,
                std::vector<float>(new_moment, new_moment + moments));
      col += cols;
      moment += moments;
      new_moment += moments;
    }
  }
}

TEST(MuonBlocksTest, OneColumnBlockIsNone) {
  MuonCase test = SmallMuonCase();
  MuonCase with_block = SmallMuonCase();
  const std::vector<int64_t> blocks = {4};
  with_block.unit.column_blocks = blocks;
  EXPECT_EQ(Update(test), Update(with_block));
}

}  // namespace
}  // namespace muonshard
