// Where bf16 and f16 round: on 1 x 1 matrices the whole iteration can be
// written down, number by number.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/data_type.h"
#include "optimizer/compute/convert.h"
#include "optimizer/compute/newton_schulz.h"
#include "optimizer/muon_options.h"

namespace muonshard {
namespace {

// Rounds to its type, or not at all.
class Rounding {
 public:
  explicit Rounding(DataType dtype) : dtype_(dtype) {}
  static Rounding None() { return Rounding(DataType::kF64); }

  double operator()(double value) const {
    if (dtype_ == DataType::kF64) return value;
    const float in = static_cast<float>(value);
    float out = 0;
    uint16_t stored = 0;
    FromFloat(dtype_, {&in, 1}, &stored);
    ToFloat(dtype_, &stored, {&out, 1});
    return out;
  }

 private:
  DataType dtype_;
};

double StandardSteps(double x,
                     const std::vector<NewtonSchulzCoefficients>& steps,
                     const Rounding& products, const Rounding& results) {
  for (const auto& [a, b, c] : steps) {
    const double gram = products(x * x);
    const double polynomial = products(b * gram + c * gram * gram);
    x = results(a * x + polynomial * x);
  }
  return x;
}

// Two steps without a restart.
double GramSteps(double x, const std::vector<NewtonSchulzCoefficients>& steps,
                 const Rounding& products, const Rounding& results) {
  const double a = steps[0].a;
  const double gram = products(x * x);
  const double first = products(steps[0].b * gram + steps[0].c * gram * gram);
  const double half_way = products(gram * first + a * gram);
  const double next = products(first * half_way + a * half_way);
  const double second = products(steps[1].b * next + steps[1].c * next * next);
  const double rest =
      products(first * second + (a * second + steps[1].a * first));
  return results(a * steps[1].a * x + rest * x);
}

class RoundingTest : public ::testing::TestWithParam<DataType> {};

TEST_P(RoundingTest, EveryProductIsRoundedWithWhatIsAddedToIt) {
  const Rounding round(GetParam());
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kQuintic;
  options.newton_schulz_steps = 2;
  options.newton_schulz_dtype = GetParam();
  options.epsilon = 1;  // So that the input is divided by 1.
  const auto steps = StepCoefficients(options);
  std::vector<float> workspace(4096);
  int told_apart = 0;
  for (int i = 1; i <= 64; ++i) {
    const double x = round(i / 64.0 * 0.987);
    const float input = static_cast<float>(x);
    float out = 0;
    options.iteration = NewtonSchulzIteration::kStandard;
    NewtonSchulz({&input, 1}, 1, 1, options, workspace, {&out, 1});
    EXPECT_EQ(out, StandardSteps(x, steps, round, round)) << x;
    told_apart += out != StandardSteps(x, steps, Rounding::None(), round);
    options.iteration = NewtonSchulzIteration::kGram;
    NewtonSchulz({&input, 1}, 1, 1, options, workspace, {&out, 1});
    EXPECT_EQ(out, GramSteps(x, steps, round, round)) << x;
    told_apart += out != GramSteps(x, steps, Rounding::None(), round);
  }
  // Most inputs show whether products are rounded.
  EXPECT_GT(told_apart, 64);
}

INSTANTIATE_TEST_SUITE_P(Types, RoundingTest,
                         ::testing::Values(DataType::kBF16, DataType::kF16),
                         [](const auto& type) {
                           return std::string(DataTypeName(type.param));
                         });

}  // namespace
}  // namespace muonshard
