#include "optimizer/muon_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "collectives/data_type.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using testing::IsOk;
using testing::StatusIs;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Change = std::function<void(MuonOptions&)>;
using Field = std::function<double&(MuonOptions&)>;

void ExpectRefused(const std::string& message, const Change& change) {
  MuonOptions options;
  change(options);
  EXPECT_THAT(Validate(options),
              StatusIs(absl::StatusCode::kInvalidArgument, message));
}

void ExpectTaken(const Change& change) {
  MuonOptions options;
  change(options);
  EXPECT_THAT(Validate(options), IsOk());
}

TEST(MuonOptionsTest, DefaultsAreValid) {
  ExpectTaken([](MuonOptions&) {});
}

TEST(MuonOptionsTest, PositiveFieldsRefuseAllElse) {
  const std::pair<std::string, Field> fields[] = {
      {"learning_rate",
       [](MuonOptions& o) -> double& { return o.learning_rate; }},
      {"epsilon", [](MuonOptions& o) -> double& { return o.epsilon; }},
      {"rms_factor", [](MuonOptions& o) -> double& { return o.rms_factor; }}};
  for (const auto& [name, field] : fields) {
    for (const double value : {0.0, -1e-3, kNaN, kInfinity}) {
      ExpectRefused("option muon." + name + ": want finite and > 0, got ",
                    [&](MuonOptions& o) { field(o) = value; });
    }
    ExpectTaken([&](MuonOptions& o) { field(o) = 1e-300; });
  }
}

TEST(MuonOptionsTest, DecayMayBeZeroButNotNegative) {
  for (const double value : {-1e-3, kNaN, kInfinity}) {
    ExpectRefused("option muon.weight_decay: want finite and >= 0, got ",
                  [&](MuonOptions& o) { o.weight_decay = value; });
  }
  ExpectTaken([](MuonOptions& o) { o.weight_decay = 0; });
}

TEST(MuonOptionsTest, AveragingFactorsLieBelowOne) {
  const std::pair<std::string, Field> fields[] = {
      {"momentum", [](MuonOptions& o) -> double& { return o.momentum; }},
      {"row_beta2", [](MuonOptions& o) -> double& { return o.row_beta2; }}};
  for (const auto& [name, field] : fields) {
    for (const double value : {1.0, -0.1, kNaN, kInfinity}) {
      ExpectRefused("option muon." + name + ": want in [0, 1), got ",
                    [&](MuonOptions& o) { field(o) = value; });
    }
    ExpectTaken([&](MuonOptions& o) { field(o) = 0; });
  }
}

TEST(MuonOptionsTest, StepsAreZeroToSixteen) {
  for (const int32_t steps : {-1, 17}) {
    ExpectRefused("option muon.newton_schulz_steps: want in [0, 16], got ",
                  [&](MuonOptions& o) { o.newton_schulz_steps = steps; });
  }
  for (const int32_t steps : {0, 1, 16}) {
    ExpectTaken([&](MuonOptions& o) { o.newton_schulz_steps = steps; });
  }
}

TEST(MuonOptionsTest, CustomCoefficientsBelongToTheCustomSet) {
  const auto custom = [](size_t count) {
    return [count](MuonOptions& o) {
      o.coefficient_set = NewtonSchulzSet::kCustom;
      o.custom_coefficients.assign(count, {1.5, -0.5, 0});
    };
  };
  ExpectTaken(custom(1));
  ExpectTaken(custom(16));
  ExpectRefused(
      "option muon.custom_coefficients: want 1 to 16 of (a, b, c), got 0",
      custom(0));
  ExpectRefused(
      "option muon.custom_coefficients: want 1 to 16 of (a, b, c), got 17",
      custom(17));
  ExpectRefused(
      "option muon.custom_coefficients: want none with the coefficient set "
      "simple, got 1",
      [](MuonOptions& o) {
        o.custom_coefficients = {{1.5, -0.5, 0}};
      });
  for (const NewtonSchulzCoefficients bad :
       {NewtonSchulzCoefficients{kNaN, 1, 1},
        NewtonSchulzCoefficients{1, kInfinity, 1},
        NewtonSchulzCoefficients{1, 1, -kInfinity}}) {
    ExpectRefused("option muon.custom_coefficients[1]: want finite, got ",
                  [&](MuonOptions& o) {
                    custom(1)(o);
                    o.custom_coefficients.push_back(bad);
                  });
  }
}

TEST(MuonOptionsTest, SetsRefuseAPreScalingTheyDoNotPresume) {
  ExpectRefused(
      "option muon.pre_scaling: want aol, which the coefficient set aol "
      "presumes, got frobenius",
      [](MuonOptions& o) {
        o.coefficient_set = NewtonSchulzSet::kAol;
        o.pre_scaling = PreScaling::kFrobenius;
      });
  for (const NewtonSchulzSet set :
       {NewtonSchulzSet::kSimple, NewtonSchulzSet::kQuintic,
        NewtonSchulzSet::kPolarExpress, NewtonSchulzSet::kDeepSeekV4}) {
    ExpectRefused("option muon.pre_scaling: want frobenius, which",
                  [&](MuonOptions& o) {
                    o.coefficient_set = set;
                    o.pre_scaling = PreScaling::kAol;
                  });
    ExpectTaken([&](MuonOptions& o) {
      o.coefficient_set = set;
      o.pre_scaling = PreScaling::kFrobenius;
    });
  }
  for (const PreScaling pre_scaling :
       {PreScaling::kOfSet, PreScaling::kFrobenius, PreScaling::kAol}) {
    ExpectTaken([&](MuonOptions& o) {
      o.coefficient_set = NewtonSchulzSet::kCustom;
      o.custom_coefficients = {{1.5, -0.5, 0}};
      o.pre_scaling = pre_scaling;
    });
  }
}

TEST(MuonOptionsTest, ThePreScalingOfASetIsResolved) {
  MuonOptions options;
  EXPECT_EQ(PreScalingOf(options), PreScaling::kFrobenius);
  options.coefficient_set = NewtonSchulzSet::kAol;
  EXPECT_EQ(PreScalingOf(options), PreScaling::kAol);
  options.coefficient_set = NewtonSchulzSet::kCustom;
  EXPECT_EQ(PreScalingOf(options), PreScaling::kFrobenius);
  options.pre_scaling = PreScaling::kAol;
  EXPECT_EQ(PreScalingOf(options), PreScaling::kAol);
}

TEST(MuonOptionsTest, SafetyAndRestartIntervalAreAtLeastOne) {
  for (const double value : {0.99, -1.0, kNaN, kInfinity}) {
    ExpectRefused("option muon.polar_express_safety: want finite and >= 1",
                  [&](MuonOptions& o) { o.polar_express_safety = value; });
  }
  ExpectTaken([](MuonOptions& o) { o.polar_express_safety = 1; });
  ExpectRefused("option muon.gram_restart_interval: want >= 1, got 0",
                [](MuonOptions& o) { o.gram_restart_interval = 0; });
  ExpectTaken([](MuonOptions& o) { o.gram_restart_interval = 1; });
}

TEST(MuonOptionsTest, ProductsAreOfFloatingTypes) {
  for (const DataType dtype :
       {DataType::kF64, DataType::kF32, DataType::kBF16, DataType::kF16}) {
    ExpectTaken([&](MuonOptions& o) { o.newton_schulz_dtype = dtype; });
  }
  ExpectRefused(
      "option muon.newton_schulz_dtype: want f64, f32, bf16 or f16, got i32",
      [](MuonOptions& o) { o.newton_schulz_dtype = DataType::kI32; });
}

TEST(MuonOptionsTest, ValuesOutsideAnEnumerationAreRefused) {
  ExpectRefused("option muon.scale: want one of MuonScale, got 77",
                [](MuonOptions& o) { o.scale = static_cast<MuonScale>(77); });
  ExpectRefused("option muon.coefficient_set: want one of NewtonSchulzSet",
                [](MuonOptions& o) {
                  o.coefficient_set = static_cast<NewtonSchulzSet>(77);
                });
  ExpectRefused(
      "option muon.pre_scaling: want one of PreScaling",
      [](MuonOptions& o) { o.pre_scaling = static_cast<PreScaling>(77); });
  ExpectRefused("option muon.iteration: want one of NewtonSchulzIteration",
                [](MuonOptions& o) {
                  o.iteration = static_cast<NewtonSchulzIteration>(77);
                });
  ExpectRefused("option muon.weight_decay_kind: want one of WeightDecay",
                [](MuonOptions& o) {
                  o.weight_decay_kind = static_cast<WeightDecay>(77);
                });
}

TEST(StepCoefficientsTest, TheLastOfASetIsHeldAndNeverWrapped) {
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kCustom;
  options.custom_coefficients = {{3, 2, 1}, {1.5, -0.5, 0}};
  const auto first_factors = [&options](int32_t steps) {
    options.newton_schulz_steps = steps;
    std::vector<double> factors;
    for (const auto& step : StepCoefficients(options))
      factors.push_back(step.a);
    return factors;
  };
  EXPECT_THAT(first_factors(0), ::testing::ElementsAre(3, 1.5));
  EXPECT_THAT(first_factors(1), ::testing::ElementsAre(3));
  EXPECT_THAT(first_factors(5), ::testing::ElementsAre(3, 1.5, 1.5, 1.5, 1.5));
  options.custom_coefficients.clear();
  EXPECT_TRUE(first_factors(3).empty());
}

template <typename Enum>
void ExpectNamesLeadBack(std::initializer_list<Enum> values,
                         absl::string_view (*name)(Enum),
                         absl::StatusOr<Enum> (*by_name)(absl::string_view)) {
  for (const Enum value : values) {
    const absl::StatusOr<Enum> found = by_name(name(value));
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(*found, value);
  }
  EXPECT_EQ(name(static_cast<Enum>(99)), "unknown");
  EXPECT_THAT(by_name("unknown"),
              StatusIs(absl::StatusCode::kInvalidArgument, "want one of "));
}

TEST(MuonOptionsTest, NamesLeadBackToTheirValues) {
  ExpectNamesLeadBack(
      {PreScaling::kOfSet, PreScaling::kFrobenius, PreScaling::kAol},
      PreScalingName, PreScalingByName);
  ExpectNamesLeadBack(
      {NewtonSchulzIteration::kStandard, NewtonSchulzIteration::kGram},
      NewtonSchulzIterationName, NewtonSchulzIterationByName);
  ExpectNamesLeadBack({MuonScale::kSpectral, MuonScale::kMatchAdamWRms,
                       MuonScale::kFanRatio, MuonScale::kNone},
                      MuonScaleName, MuonScaleByName);
  ExpectNamesLeadBack({WeightDecay::kDecoupled, WeightDecay::kCautious},
                      WeightDecayName, WeightDecayByName);
  EXPECT_THAT(MuonScaleByName("Spectral"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "scale rule: want one of spectral, match_adamw_rms, "
                       "fan_ratio, none, got \"Spectral\""));
}

}  // namespace
}  // namespace muonshard
