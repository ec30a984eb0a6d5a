// What the sets make of singular values: a grid through the scalar polynomials
// finds where a set changes a sign or leaves its range.

#include "optimizer/newton_schulz_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "optimizer/muon_options.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using testing::StatusIs;

constexpr int kGridPoints = 20000;

MuonOptions OptionsOf(NewtonSchulzSet set) {
  MuonOptions options;
  options.coefficient_set = set;
  return options;
}

double Image(double s, const std::vector<NewtonSchulzCoefficients>& steps) {
  for (const auto& [a, b, c] : steps) {
    const double square = s * s;
    s *= a + square * (b + square * c);
  }
  return s;
}

struct Range {
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -std::numeric_limits<double>::infinity();
  void Add(double value) {
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
};

// Of singular values in [low, high].
Range ImageOf(const MuonOptions& options, double low, double high) {
  const auto steps = StepCoefficients(options);
  Range range;
  for (int i = 0; i <= kGridPoints; ++i) {
    range.Add(Image(low + (high - low) * i / kGridPoints, steps));
  }
  return range;
}

// The least factor by which a set multiplies a singular value in (0, high].
double LeastGain(const MuonOptions& options, double high) {
  const auto steps = StepCoefficients(options);
  Range range;
  for (int i = 0; i <= kGridPoints; ++i) {
    const double linear = high * (i + 1) / (kGridPoints + 1);
    const double logarithmic = high * std::pow(1e-12, 1.0 * i / kGridPoints);
    range.Add(Image(linear, steps) / linear);
    range.Add(Image(logarithmic, steps) / logarithmic);
  }
  return range.lowest;
}

// The largest singular value that the set's own pre-scaling leaves.
double LargestInput(NewtonSchulzSet set) {
  return PreScalingOf(OptionsOf(set)) == PreScaling::kAol ? kAolSpectralNormMax
                                                          : 1;
}

struct SetRange {
  NewtonSchulzSet set;
  size_t length;
  // Of singular values of at least 0.01, to two digits.
  double lowest;
  double highest;
  // Of all.
  double bound;
};

// Ranges as the sets' users state them; that of aol is the one that its tuples
// have below the zero of its first polynomial.
constexpr SetRange kRanges[] = {
    {NewtonSchulzSet::kSimple, 5, 0.68, 1.13, 1.21},
    {NewtonSchulzSet::kQuintic, 5, 0.98, 1.03, 1.15},
    {NewtonSchulzSet::kPolarExpress, 8, 1.00, 1.00, 1.0 + 1e-12},
    {NewtonSchulzSet::kAol, 4, 0.87, 1.08, 1.09},
    {NewtonSchulzSet::kDeepSeekV4, 10, 1.00, 1.00, 1.01}};

class SetTest : public ::testing::TestWithParam<SetRange> {};

TEST_P(SetTest, RunsItsLength) {
  EXPECT_EQ(StepCoefficients(OptionsOf(GetParam().set)).size(),
            GetParam().length);
}

TEST_P(SetTest, KeepsTheSignOfEverySingularValue) {
  const NewtonSchulzSet set = GetParam().set;
  EXPECT_GT(LeastGain(OptionsOf(set), LargestInput(set)), 0.5);
}

TEST_P(SetTest, TakesSingularValuesIntoItsRange) {
  const NewtonSchulzSet set = GetParam().set;
  const Range range = ImageOf(OptionsOf(set), 0.01, LargestInput(set));
  EXPECT_NEAR(range.lowest, GetParam().lowest, 0.005);
  EXPECT_NEAR(range.highest, GetParam().highest, 0.005);
  EXPECT_LT(ImageOf(OptionsOf(set), 0, LargestInput(set)).highest,
            GetParam().bound);
}

TEST_P(SetTest, HoldsItsLastTupleWithinTheSameBound) {
  const NewtonSchulzSet set = GetParam().set;
  MuonOptions options = OptionsOf(set);
  options.newton_schulz_steps = 16;
  EXPECT_GT(LeastGain(options, LargestInput(set)), 0.5);
  EXPECT_LT(ImageOf(options, 0, LargestInput(set)).highest, 1.21);
}

std::string SetName(const ::testing::TestParamInfo<SetRange>& info) {
  return std::string(CoefficientSetOf(info.param.set).name);
}

INSTANTIATE_TEST_SUITE_P(Sets, SetTest, ::testing::ValuesIn(kRanges), SetName);

TEST(NewtonSchulzSetTest, AolReversesAMainDirectionUnderAnotherPreScaling) {
  // Why the set has a pre-scaling of its own, and why that stays below 1.
  const double after_frobenius = 1;
  EXPECT_LT(Image(after_frobenius,
                  StepCoefficients(OptionsOf(NewtonSchulzSet::kAol))),
            -0.8);
}

TEST(NewtonSchulzSetTest, FiveStepsOfPolarExpressAreRougher) {
  MuonOptions options = OptionsOf(NewtonSchulzSet::kPolarExpress);
  options.newton_schulz_steps = 5;
  const Range range = ImageOf(options, 0.01, 1);
  EXPECT_NEAR(range.lowest, 0.87, 0.005);
  EXPECT_NEAR(range.highest, 1.12, 0.005);
}

TEST(NewtonSchulzSetTest, PolarExpressWithASafetyOfOnePercentIsThePublished) {
  // The four digits in which Megatron-LM and PaddlePaddle carry the set.
  const NewtonSchulzCoefficients published[] = {
      {8.2051, -22.9019, 16.4607}, {4.0664, -2.8612, 0.5184},
      {3.9096, -2.8234, 0.5250},   {3.2856, -2.4153, 0.4853},
      {2.2779, -1.6198, 0.3985},   {1.8726, -1.2307, 0.3585},
      {1.8564, -1.2132, 0.3568},   {1.8750, -1.2500, 0.3750}};
  const auto steps =
      StepCoefficients(OptionsOf(NewtonSchulzSet::kPolarExpress));
  ASSERT_EQ(steps.size(), std::size(published));
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_NEAR(steps[i].a, published[i].a, 1e-4) << i;
    EXPECT_NEAR(steps[i].b, published[i].b, 1e-4) << i;
    EXPECT_NEAR(steps[i].c, published[i].c, 1e-4) << i;
  }
}

TEST(NewtonSchulzSetTest, TheSafetyFactorDividesWhatAPolynomialReads) {
  MuonOptions plain = OptionsOf(NewtonSchulzSet::kPolarExpress);
  plain.polar_express_safety = 1;
  MuonOptions safe = plain;
  safe.polar_express_safety = 1.05;
  const auto plain_steps = StepCoefficients(plain);
  const auto safe_steps = StepCoefficients(safe);
  for (size_t i = 0; i < plain_steps.size(); ++i) {
    const double factor = i + 1 == plain_steps.size() ? 1 : 1.05;
    for (const double s : {0.1, 0.7, 1.04}) {
      EXPECT_NEAR(Image(s, {safe_steps[i]}),
                  Image(s / factor, {plain_steps[i]}), 1e-14);
    }
  }
}

TEST(NewtonSchulzSetTest, NamesLeadBackToTheirSets) {
  for (const CoefficientSet& row : CoefficientSets()) {
    const auto set = NewtonSchulzSetByName(row.name);
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_EQ(*set, row.set);
    EXPECT_EQ(CoefficientSetOf(row.set).name, row.name);
    EXPECT_FALSE(row.source.empty());
    EXPECT_EQ(row.coefficients.empty(), row.set == NewtonSchulzSet::kCustom);
  }
  EXPECT_EQ(CoefficientSets().size(), 6u);
}

TEST(NewtonSchulzSetTest, AnUnknownNameIsAnsweredWithThoseThereAre) {
  EXPECT_THAT(NewtonSchulzSetByName("Simple"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "coefficient set: want one of simple, quintic, "
                       "polar_express, aol, deepseek_v4, custom, got "
                       "\"Simple\""));
}

TEST(NewtonSchulzSetTest, AValueOutsideTheEnumerationIsCustom) {
  EXPECT_EQ(CoefficientSetOf(static_cast<NewtonSchulzSet>(99)).name, "custom");
}

}  // namespace
}  // namespace muonshard
