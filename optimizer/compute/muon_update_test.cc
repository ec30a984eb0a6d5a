#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "optimizer/compute/convert.h"
#include "optimizer/compute/newton_schulz.h"
#include "optimizer/compute/update.h"

namespace muonshard {
namespace {

using Bytes = std::vector<std::byte>;

// f32's unit roundoff.
const double kRoundoff = std::ldexp(1.0, -24);

std::vector<float> Wave(size_t count, double frequency) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] =
        static_cast<float>(std::sin(frequency * static_cast<double>(i + 1)));
  }
  return values;
}

Bytes As(DataType type, const std::vector<float>& values) {
  Bytes bytes(values.size() * ByteWidth(type));
  FromFloat(type, values, bytes.data());
  return bytes;
}

std::vector<float> Values(DataType type, const Bytes& bytes) {
  std::vector<float> values(bytes.size() / ByteWidth(type));
  ToFloat(type, bytes.data(), values);
  return values;
}

std::vector<float> Rounded(DataType type, const std::vector<float>& values) {
  return Values(type, As(type, values));
}

// An iteration that only divides by the Frobenius norm, so that results can be
// had in closed form.
MuonOptions NormalizeOnly() {
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kCustom;
  options.custom_coefficients = {{1, 0, 0}};
  options.newton_schulz_steps = 1;
  return options;
}

struct MuonCase {
  MuonUnit unit;
  MuonOptions options;
  UpdateFactors factors;
  DataType gradient_dtype = DataType::kF32;
  DataType parameter_dtype = DataType::kF32;
  std::vector<float> gradient;
  std::vector<float> momentum;
  std::vector<float> parameter;
};

MuonCase SmallMuonCase() {
  MuonCase test;
  test.unit = {
      .rows = 3, .cols = 4, .column_blocks = {}, .fan_out_dimension = 0};
  test.options = NormalizeOnly();
  test.factors = {.learning_rate = 0.5,
                  .weight_decay = 0.25,
                  .gradient_factor = 1,
                  .step = 1};
  test.gradient = Wave(12, 1.0);
  test.momentum = Wave(12, 0.3);
  test.parameter = Wave(12, 0.7);
  return test;
}

// Returns the new parameter; `test.momentum` becomes the new momentum.
std::vector<float> Update(MuonCase& test) {
  const Bytes gradient = As(test.gradient_dtype, test.gradient);
  Bytes parameter = As(test.parameter_dtype, test.parameter);
  std::vector<float> workspace(
      static_cast<size_t>(MuonWorkspaceCount(test.unit, test.options)));
  MuonUpdate(test.unit, test.options, test.factors, test.gradient_dtype,
             gradient.data(), test.momentum, test.parameter_dtype,
             parameter.data(), parameter.data(), workspace);
  return Values(test.parameter_dtype, parameter);
}

// The header's formulas in fp64, for one block and an iteration that only
// normalizes; `scale` is the factor that the rule gives.
void CheckAgainstFormula(MuonCase test, double scale) {
  const std::vector<float> gradient =
      Rounded(test.gradient_dtype, test.gradient);
  const std::vector<float> parameter =
      Rounded(test.parameter_dtype, test.parameter);
  const double beta = test.options.momentum;
  std::vector<double> momentum(gradient.size());
  std::vector<double> direction(gradient.size());
  double squares = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double g = test.factors.gradient_factor * double{gradient[i]};
    momentum[i] = beta * double{test.momentum[i]} + (1 - beta) * g;
    direction[i] = test.options.nesterov ? (1 - beta) * g + beta * momentum[i]
                                         : momentum[i];
    squares += direction[i] * direction[i];
  }
  const double norm = std::max(std::sqrt(squares), test.options.epsilon);
  const double lr = test.factors.learning_rate;
  const std::vector<float> result = Update(test);
  // A handful of roundings of values up to 1 for f32; one of the type besides.
  const double type_roundoff =
      test.parameter_dtype == DataType::kF32
          ? 0
          : std::ldexp(1.0, test.parameter_dtype == DataType::kF16 ? -11 : -8);
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double expected =
        double{parameter[i]} * (1 - lr * test.factors.weight_decay) -
        lr * scale * direction[i] / norm;
    EXPECT_NEAR(
        double{result[i]}, expected,
        16 * kRoundoff * (1 + lr * scale) + type_roundoff * std::abs(expected))
        << i;
    EXPECT_NEAR(double{test.momentum[i]}, momentum[i], 4 * kRoundoff) << i;
  }
}

TEST(MuonUpdateTest, FollowsItsFormula) {
  CheckAgainstFormula(SmallMuonCase(), 1);
}

TEST(MuonUpdateTest, EachHyperParameterActsAsItsFormulaSays) {
  MuonCase test = SmallMuonCase();
  test.factors.learning_rate = 0.1;
  CheckAgainstFormula(test, 1);
  test.factors.weight_decay = 0;
  CheckAgainstFormula(test, 1);
  test.factors.gradient_factor = 0.125;
  CheckAgainstFormula(test, 1);
  test.options.momentum = 0.5;
  CheckAgainstFormula(test, 1);
  test.options.momentum = 0;
  CheckAgainstFormula(test, 1);
  test.options.momentum = 0.75;
  test.options.nesterov = false;
  CheckAgainstFormula(test, 1);
  test.options.epsilon = 100;
  CheckAgainstFormula(test, 1);
}

TEST(MuonUpdateTest, TheScaleFollowsTheShapeAndTheFanOutDimension) {
  MuonCase wide = SmallMuonCase();
  MuonCase tall = SmallMuonCase();
  tall.unit.rows = 4;
  tall.unit.cols = 3;
  wide.options.scale = tall.options.scale = MuonScale::kSpectral;
  CheckAgainstFormula(wide, 1);
  CheckAgainstFormula(tall, std::sqrt(4.0 / 3));
  wide.unit.fan_out_dimension = tall.unit.fan_out_dimension = 1;
  CheckAgainstFormula(wide, std::sqrt(4.0 / 3));
  CheckAgainstFormula(tall, 1);
  wide.options.scale = tall.options.scale = MuonScale::kFanRatio;
  CheckAgainstFormula(wide, std::sqrt(4.0 / 3));
  CheckAgainstFormula(tall, std::sqrt(3.0 / 4));
  wide.options.scale = MuonScale::kMatchAdamWRms;
  CheckAgainstFormula(wide, 0.2 * 2);
  tall.options.scale = MuonScale::kNone;
  CheckAgainstFormula(tall, 1);
}

TEST(MuonUpdateTest, EveryPairOfTypesIsReadAndRoundedOnce) {
  for (const DataType gradient :
       {DataType::kF32, DataType::kBF16, DataType::kF16}) {
    for (const DataType parameter :
         {DataType::kF32, DataType::kBF16, DataType::kF16}) {
      SCOPED_TRACE(std::string(DataTypeName(gradient)) + " " +
                   std::string(DataTypeName(parameter)));
      MuonCase test = SmallMuonCase();
      test.gradient_dtype = gradient;
      test.parameter_dtype = parameter;
      CheckAgainstFormula(test, 1);
      // Narrow parameters are those of f32, rounded.
      MuonCase exact = test;
      exact.parameter_dtype = DataType::kF32;
      exact.parameter = Rounded(parameter, test.parameter);
      EXPECT_EQ(Update(test), Rounded(parameter, Update(exact)));
    }
  }
}

TEST(MuonUpdateTest, ColumnBlocksAreUpdatedAsMatricesOfTheirOwn) {
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

TEST(MuonUpdateTest, PaddingColumnsChangeNothingAndKeepTheirValues) {
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

TEST(MuonUpdateTest, PaddingIsCopiedToAnotherBufferBitForBit) {
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
             test.gradient.data(), momentum, DataType::kF16, parameter.data(),
             out.data(), workspace);
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

TEST(MuonUpdateTest, OneColumnBlockIsNone) {
  MuonCase test = SmallMuonCase();
  MuonCase with_block = SmallMuonCase();
  const std::vector<int64_t> blocks = {4};
  with_block.unit.column_blocks = blocks;
  EXPECT_EQ(Update(test), Update(with_block));
}

TEST(MuonUpdateTest, TheFactorIsThatOfNewtonSchulz) {
  MuonCase test = SmallMuonCase();
  test.options = {};
  test.options.momentum = 0;
  test.factors = {
      .learning_rate = 1, .weight_decay = 0, .gradient_factor = 1, .step = 1};
  test.parameter.assign(12, 0.0f);
  std::vector<float> expected(12);
  std::vector<float> workspace(
      static_cast<size_t>(NewtonSchulzWorkspaceCount(3, 4, test.options)));
  NewtonSchulz(test.gradient, 3, 4, test.options, workspace, expected);
  for (float& value : expected) value = -value;
  EXPECT_EQ(Update(test), expected);
}

TEST(MuonUpdateTest, OutMayBeAnotherBufferAtAnyAlignment) {
  constexpr size_t kCount = 30 * 35;
  const std::vector<float> gradient = Wave(kCount, 1.0);
  const std::vector<float> start = Wave(kCount, 0.7);
  const MuonUnit unit = {
      .rows = 30, .cols = 35, .column_blocks = {}, .fan_out_dimension = 0};
  const UpdateFactors factors = {.learning_rate = 0.1,
                                 .weight_decay = 0.1,
                                 .gradient_factor = 1,
                                 .step = 1};
  std::vector<float> expected;
  for (size_t offset = 0; offset < 9; ++offset) {
    std::vector<float> in(offset), out(kCount + offset, 9.0f);
    std::vector<float> momentum(kCount + offset);
    in.insert(in.end(), start.begin(), start.end());
    std::vector<float> workspace(
        static_cast<size_t>(MuonWorkspaceCount(unit, {})) + offset);
    MuonUpdate(unit, {}, factors, DataType::kF32, gradient.data(),
               std::span(momentum).subspan(offset), DataType::kF32,
               in.data() + offset, out.data() + offset,
               std::span(workspace).subspan(offset));
    const std::vector<float> result(out.end() - kCount, out.end());
    if (offset == 0) expected = result;
    EXPECT_EQ(result, expected);
    EXPECT_EQ(std::vector<float>(in.end() - kCount, in.end()), start);
  }
}

}  // namespace
}  // namespace muonshard
