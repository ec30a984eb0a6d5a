#include "optimizer/muon_presets.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using testing::IsOk;
using testing::StatusIs;

MuonOptions PresetOf(absl::string_view name) {
  const absl::StatusOr<MuonOptions> preset = MuonPreset(name);
  EXPECT_THAT(preset, IsOk());
  return preset.value_or(MuonOptions());
}

// What all presets have in common.
void ExpectCommonValues(const MuonOptions& options) {
  EXPECT_EQ(options.weight_decay_kind, WeightDecay::kDecoupled);
  EXPECT_EQ(options.momentum, 0.95);
  EXPECT_TRUE(options.nesterov);
  EXPECT_EQ(options.coefficient_set, NewtonSchulzSet::kSimple);
  EXPECT_TRUE(options.custom_coefficients.empty());
  EXPECT_EQ(options.polar_express_safety, 1.01);
  EXPECT_EQ(options.pre_scaling, PreScaling::kOfSet);
  EXPECT_EQ(options.newton_schulz_steps, 0);
  EXPECT_EQ(options.iteration, NewtonSchulzIteration::kStandard);
  EXPECT_EQ(options.gram_restart_interval, 2);
  EXPECT_EQ(options.newton_schulz_dtype, DataType::kF32);
  EXPECT_EQ(options.rms_factor, 0.2);
  EXPECT_FALSE(options.row_normalization);
  EXPECT_EQ(options.row_beta2, 0.95);
  EXPECT_THAT(Validate(options), IsOk());

  const auto steps = StepCoefficients(options);
  ASSERT_EQ(steps.size(), 5);
  for (const NewtonSchulzCoefficients& step : steps) {
    EXPECT_EQ(step.a, 3.4445);
    EXPECT_EQ(step.b, -4.7750);
    EXPECT_EQ(step.c, 2.0315);
  }
}

TEST(MuonPresetsTest, Torch) {
  const MuonOptions options = PresetOf("torch");
  ExpectCommonValues(options);
  EXPECT_EQ(options.learning_rate, 1e-3);
  EXPECT_EQ(options.weight_decay, 0.1);
  EXPECT_EQ(options.epsilon, 1e-7);
  EXPECT_EQ(options.scale, MuonScale::kSpectral);
}

TEST(MuonPresetsTest, KellerJordan) {
  const MuonOptions options = PresetOf("keller_jordan");
  ExpectCommonValues(options);
  EXPECT_EQ(options.learning_rate, 0.02);
  EXPECT_EQ(options.weight_decay, 0);
  EXPECT_EQ(options.epsilon, 1e-7);
  EXPECT_EQ(options.scale, MuonScale::kSpectral);
}

TEST(MuonPresetsTest, Moonlight) {
  const MuonOptions options = PresetOf("moonlight");
  ExpectCommonValues(options);
  EXPECT_EQ(options.learning_rate, 1e-3);
  EXPECT_EQ(options.weight_decay, 0.1);
  EXPECT_EQ(options.epsilon, 1e-7);
  EXPECT_EQ(options.scale, MuonScale::kMatchAdamWRms);
}

TEST(MuonPresetsTest, PaddleHasItsFactorInTheRate) {
  const MuonOptions options = PresetOf("paddle");
  ExpectCommonValues(options);
  EXPECT_DOUBLE_EQ(options.learning_rate, 0.02 * 0.2);
  EXPECT_DOUBLE_EQ(options.learning_rate * options.weight_decay, 0.02 * 0.01);
  EXPECT_EQ(options.epsilon, 1e-9);
  EXPECT_EQ(options.scale, MuonScale::kSpectral);
}

TEST(MuonPresetsTest, TheDefaultsAreThoseOfTorch) {
  const MuonOptions torch = PresetOf("torch");
  const MuonOptions options;
  ExpectCommonValues(options);
  EXPECT_EQ(options.learning_rate, torch.learning_rate);
  EXPECT_EQ(options.weight_decay, torch.weight_decay);
  EXPECT_EQ(options.epsilon, torch.epsilon);
  EXPECT_EQ(options.scale, torch.scale);
}

TEST(MuonPresetsTest, EachRowOfTheTableHasASourceAndAName) {
  EXPECT_EQ(MuonPresets().size(), 4);
  for (const MuonPresetRow& row : MuonPresets()) {
    EXPECT_FALSE(row.source.empty());
    EXPECT_EQ(PresetOf(row.name).learning_rate, row.learning_rate);
  }
}

TEST(MuonPresetsTest, AnUnknownNameIsToldTheKnownOnes) {
  EXPECT_THAT(MuonPreset("adam\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "Muon preset: want one of torch, keller_jordan, "
                       "moonlight, paddle; got \"adam\\n\""));
}

}  // namespace
}  // namespace muonshard
