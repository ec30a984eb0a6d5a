#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "optimizer/compute/convert.h"
#include "optimizer/compute/update.h"
#include "testing/unit_roundoff.h"

namespace muonshard {
namespace {

using testing::kF32Roundoff;
using testing::UnitRoundoff;

using Bytes = std::vector<std::byte>;

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

struct AdamWCase {
  AdamWOptions options;
  UpdateFactors factors = {.learning_rate = 0.01,
                           .weight_decay = 0.1,
                           .gradient_factor = 1,
                           .step = 3};
  DataType gradient_dtype = DataType::kF32;
  DataType parameter_dtype = DataType::kF32;
  std::vector<float> gradient = Wave(1000, 1.0);
  std::vector<float> first = Wave(1000, 0.3);
  std::vector<float> second = std::vector<float>(1000, 0.25f);
  std::vector<float> parameter = Wave(1000, 0.7);
};

// Updates in ranges that end at `ends`, as ranks would do between them.
std::vector<float> Update(AdamWCase& test, const std::vector<size_t>& ends) {
  const Bytes gradient = As(test.gradient_dtype, test.gradient);
  const Bytes parameter = As(test.parameter_dtype, test.parameter);
  Bytes out(parameter.size());
  size_t start = 0;
  for (const size_t end : ends) {
    const size_t offset = start * ByteWidth(test.parameter_dtype);
    AdamWUpdate(test.options, test.factors, test.gradient_dtype,
                gradient.data() + start * ByteWidth(test.gradient_dtype),
                std::span(test.first).subspan(start, end - start),
                std::span(test.second).subspan(start, end - start),
                test.parameter_dtype, parameter.data() + offset,
                out.data() + offset);
    start = end;
  }
  return Values(test.parameter_dtype, out);
}

void CheckAgainstFormula(AdamWCase test) {
  const std::vector<float> gradient =
      Rounded(test.gradient_dtype, test.gradient);
  const std::vector<float> parameter =
      Rounded(test.parameter_dtype, test.parameter);
  const AdamWCase before = test;
  const std::vector<float> result = Update(test, {1000});
  const double type_roundoff = test.parameter_dtype == DataType::kF32
                                   ? 0
                                   : UnitRoundoff(test.parameter_dtype);
  const auto [rate, decay, clip, step] = test.factors;
  const double t = static_cast<double>(step);
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double g = clip * double{gradient[i]};
    const double m = test.options.beta1 * double{before.first[i]} +
                     (1 - test.options.beta1) * g;
    const double v = test.options.beta2 * double{before.second[i]} +
                     (1 - test.options.beta2) * g * g;
    const double step_size =
        rate / (1 - std::pow(test.options.beta1, t)) * m /
        (std::sqrt(v) / std::sqrt(1 - std::pow(test.options.beta2, t)) +
         test.options.epsilon);
    const double expected =
        double{parameter[i]} * (1 - rate * decay) - step_size;
    // A few roundings of the moments, and of the step's own size. The first
    // moment is a difference of values up to 1, so its error is absolute.
    const double moment_error = 4 * kF32Roundoff;
    const double step_error =
        16 * kF32Roundoff * std::abs(step_size) +
        (m == 0 ? 0 : std::abs(step_size / m) * moment_error);
    EXPECT_NEAR(double{test.first[i]}, m, moment_error) << i;
    EXPECT_NEAR(double{test.second[i]}, v, moment_error * v) << i;
    EXPECT_NEAR(
        double{result[i]}, expected,
        step_error + 4 * kF32Roundoff + type_roundoff * std::abs(expected))
        << i;
  }
}

TEST(AdamWUpdateTest, FollowsItsFormula) { CheckAgainstFormula({}); }

TEST(AdamWUpdateTest, EachHyperParameterActsAsItsFormulaSays) {
  AdamWCase test;
  test.factors.learning_rate = 0.5;
  CheckAgainstFormula(test);
  test.factors.weight_decay = 0;
  CheckAgainstFormula(test);
  test.factors.gradient_factor = 0.25;
  CheckAgainstFormula(test);
  test.factors.step = 1;
  CheckAgainstFormula(test);
  test.options.beta1 = 0.5;
  CheckAgainstFormula(test);
  test.options.beta2 = 0.5;
  CheckAgainstFormula(test);
  test.options.epsilon = 0.75;
  CheckAgainstFormula(test);
  test.options.beta1 = test.options.beta2 = 0;
  CheckAgainstFormula(test);
}

TEST(AdamWUpdateTest, EveryPairOfTypesIsReadAndRoundedOnce) {
  for (const DataType gradient :
       {DataType::kF32, DataType::kBF16, DataType::kF16}) {
    for (const DataType parameter :
         {DataType::kF32, DataType::kBF16, DataType::kF16}) {
      SCOPED_TRACE(std::string(DataTypeName(gradient)) + " " +
                   std::string(DataTypeName(parameter)));
      AdamWCase test;
      test.gradient_dtype = gradient;
      test.parameter_dtype = parameter;
      CheckAgainstFormula(test);
    }
  }
}

TEST(AdamWUpdateTest, BitsDoNotDependOnWhereRangesAreCut) {
  for (const DataType type :
       {DataType::kF32, DataType::kBF16, DataType::kF16}) {
    AdamWCase whole;
    whole.gradient_dtype = whole.parameter_dtype = type;
    const AdamWCase before = whole;
    const std::vector<float> expected = Update(whole, {1000});
    for (const std::vector<size_t>& ends : {std::vector<size_t>{128, 1000},
                                            {128, 256, 640, 1000},
                                            {1, 2, 3, 700, 700, 999, 1000},
                                            {255, 513, 1000}}) {
      AdamWCase cut = before;
      EXPECT_EQ(Update(cut, ends), expected);
      EXPECT_EQ(cut.first, whole.first);
      EXPECT_EQ(cut.second, whole.second);
    }
  }
}

TEST(AdamWUpdateTest, TinyAndHugeGradientsFollowTheFormula) {
  for (const double size : {1e-30, 1e15}) {
    AdamWCase test;
    test.factors = {.learning_rate = 0.5,
                    .weight_decay = 0,
                    .gradient_factor = 1,
                    .step = 1};
    test.first.assign(1000, 0.0f);
    test.second.assign(1000, 0.0f);
    test.parameter.assign(1000, 0.0f);
    for (float& value : test.gradient) value *= static_cast<float>(size);
    const std::vector<float> gradient = test.gradient;
    const std::vector<float> result = Update(test, {1000});
    for (size_t i = 0; i < result.size(); ++i) {
      const double g = double{gradient[i]};
      // The squares of tiny gradients vanish in f32, and beside epsilon.
      const double want =
          -0.5 * g / (std::abs(g) + double{test.options.epsilon});
      EXPECT_NEAR(double{result[i]}, want, 16 * kF32Roundoff * std::abs(want));
    }
  }
}

TEST(AdamWUpdateTest, AZeroGradientAtRestOnlyDecays) {
  AdamWCase test;
  test.gradient.assign(1000, 0.0f);
  test.first.assign(1000, 0.0f);
  test.second.assign(1000, 0.0f);
  test.parameter.assign(1000, 1.0f);
  test.factors = {.learning_rate = 0.5,
                  .weight_decay = 0.5,
                  .gradient_factor = 1,
                  .step = 1};
  EXPECT_EQ(Update(test, {1000}), std::vector<float>(1000, 0.75f));
}

}  // namespace
}  // namespace muonshard
