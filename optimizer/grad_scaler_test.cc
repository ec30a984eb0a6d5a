#include "optimizer/grad_scaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "optimizer/compute/gradient_norm.h"
#include "testing/seeded_random.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::SeededRandom;
using ::muonshard::testing::StatusIs;

GradScaler Make(const GradScalerOptions& options) {
  absl::StatusOr<GradScaler> scaler = GradScaler::Create(options);
  EXPECT_THAT(scaler, IsOk());
  return *std::move(scaler);
}

GradScaler At(float scale, const GradScalerOptions& options = {}) {
  GradScaler scaler = Make(options);
  EXPECT_THAT(scaler.Load({.scale = scale, .growth_tracker = 0}), IsOk());
  return scaler;
}

const StepOutcome kGood = {.step = 1, .updated = true};
const StepOutcome kBad = {.step = 1, .non_finite_count = 3};

// torch's _amp_update_scale_, line by line and in its own terms, but for the
// bounds: torch asks whether a grown scale is finite, and of a smaller one
// nothing. Its scale is a f32 tensor, its factors are doubles, and a product is
// stored as f32.
struct TorchScaler {
  float current_scale;
  int growth_tracker = 0;
  double growth_factor;
  double backoff_factor;
  int growth_interval;

  void Update(bool found_inf) {
    if (found_inf) {
      const float new_scale =
          static_cast<float>(current_scale * backoff_factor);
      if (new_scale >= 0x1p-64f) current_scale = new_scale;
      growth_tracker = 0;
      return;
    }
    const int successful = growth_tracker + 1;
    if (successful == growth_interval) {
      const float new_scale = static_cast<float>(current_scale * growth_factor);
      if (new_scale <= 0x1p64f) current_scale = new_scale;
      growth_tracker = 0;
    } else {
      growth_tracker = successful;
    }
  }
};

TEST(GradScalerTest, MovesAsTorchsOverLongSequences) {
  struct Case {
    double init_scale;
    double growth_factor;
    double backoff_factor;
    int32_t growth_interval;
    uint64_t one_bad_in;
  };
  // Of factors that are no powers of two every product is rounded.
  for (const Case& c : std::vector<Case>{{65536, 2, 0.5, 5, 7},
                                         {65536, 2, 0.5, 1, 2},
                                         {1000.1, 1.7, 0.3, 3, 10},
                                         {3, 1.0001, 0.9999, 2, 3},
                                         {1e10, 10, 0.1, 2, 20},
                                         {0x1p64, 1.5, 0.7, 3, 9},
                                         {1e-9, 1.5, 0.1, 3, 2}}) {
    GradScaler scaler = Make({.init_scale = c.init_scale,
                              .growth_factor = c.growth_factor,
                              .backoff_factor = c.backoff_factor,
                              .growth_interval = c.growth_interval});
    TorchScaler torch{.current_scale = static_cast<float>(c.init_scale),
                      .growth_factor = c.growth_factor,
                      .backoff_factor = c.backoff_factor,
                      .growth_interval = c.growth_interval};
    SeededRandom random(static_cast<uint64_t>(c.growth_interval));
    for (int step = 0; step < 5000; ++step) {
      ASSERT_EQ(scaler.scale(), torch.current_scale) << "step " << step;
      ASSERT_EQ(scaler.state().growth_tracker, torch.growth_tracker);
      const bool bad = random.OneIn(c.one_bad_in);
      scaler.Update(bad ? kBad : kGood);
      torch.Update(bad);
    }
  }
}

TEST(GradScalerTest, StateAfterEachStepIsThatOfTheTable) {
  GradScaler scaler = Make({.init_scale = 8, .growth_interval = 3});
  struct Row {
    bool bad;
    float scale;
    int32_t tracker;
  };
  for (const Row& row : std::vector<Row>{{false, 8, 1},
                                         {false, 8, 2},
                                         {false, 16, 0},
                                         {false, 16, 1},
                                         {true, 8, 0},
                                         {true, 4, 0},
                                         {false, 4, 1},
                                         {false, 4, 2},
                                         {false, 8, 0}}) {
    scaler.Update(row.bad ? kBad : kGood);
    EXPECT_EQ(scaler.state(), (GradScalerState{.scale = row.scale,
                                               .growth_tracker = row.tracker}));
  }
}

TEST(GradScalerTest, TheDefaultsAreThoseOfTorch) {
  GradScaler scaler = Make({});
  EXPECT_EQ(scaler.scale(), 65536);
  for (int step = 0; step < 1999; ++step) scaler.Update(kGood);
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.Update(kGood);
  EXPECT_EQ(scaler.scale(), 131072);
  scaler.Update(kBad);
  EXPECT_EQ(scaler.scale(), 65536);
}

TEST(GradScalerTest, AScaleThatWouldGrowBeyondItsBoundStaysAndCountsAnew) {
  GradScaler scaler = At(0x1p64f, {.growth_interval = 2});
  scaler.Update(kGood);
  scaler.Update(kGood);
  EXPECT_EQ(scaler.state(),
            (GradScalerState{.scale = 0x1p64f, .growth_tracker = 0}));
  scaler.Update(kBad);
  EXPECT_EQ(scaler.scale(), 0x1p63f);
}

TEST(GradScalerTest, GoodStepsNeverGrowAScaleOverWhichAClipFactorIsLost) {
  for (const double growth_factor : {2.0, 1.7, 1e6}) {
    GradScaler scaler =
        Make({.growth_factor = growth_factor, .growth_interval = 1});
    for (int step = 0; step < 1000; ++step) {
      scaler.Update(kGood);
      ASSERT_LE(scaler.scale(), kDynamicScaleMax);
      ASSERT_TRUE(GradientFactorFits(1, 0x1p-65, scaler.scale()));
    }
    // It goes as far as it may.
    EXPECT_GT(scaler.scale() * growth_factor, kDynamicScaleMax);
  }
  EXPECT_FALSE(GradientFactorFits(1, 0x1p-65, kDynamicScaleMax * 2));
}

TEST(GradScalerTest, BadStepsNeverShrinkAScaleUnderWhichF16GradientsAreLost) {
  GradScaler scaler = Make({});
  for (int step = 0; step < 1000; ++step) scaler.Update(kBad);
  EXPECT_EQ(scaler.scale(), kDynamicScaleMin);
  const double f16_norm = 65504 * std::sqrt(0x1p90);
  EXPECT_TRUE(GradientFactorFits(f16_norm / scaler.scale(), 1, scaler.scale()));
}

TEST(GradScalerTest, AnInitialScaleIsRoundedToF32) {
  EXPECT_EQ(Make({.init_scale = 1000.1}).scale(), double{1000.1f});
}

TEST(GradScalerTest, ALoadedStateGoesOnWhereTheSavedOneStopped) {
  const GradScalerOptions options = {.init_scale = 100, .growth_interval = 4};
  GradScaler first = Make(options);
  for (const bool bad : {true, false, false}) {
    first.Update(bad ? kBad : kGood);
  }
  GradScaler second = Make(options);
  ASSERT_THAT(second.Load(first.state()), IsOk());
  for (const bool bad : {false, false, true, false}) {
    first.Update(bad ? kBad : kGood);
    second.Update(bad ? kBad : kGood);
    EXPECT_EQ(first.state(), second.state());
  }
  EXPECT_EQ(second.scale(), 50);
}

TEST(GradScalerTest, OptionsOutOfRangeAreRefusedWithTheirBounds) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const auto refuse = [](const GradScalerOptions& options,
                         const std::string& text) {
    EXPECT_THAT(GradScaler::Create(options),
                StatusIs(absl::StatusCode::kInvalidArgument, text));
  };
  for (const double scale :
       {0.0, -1.0, kDynamicScaleMin / 2, kDynamicScaleMax * 2, infinity, nan}) {
    refuse({.init_scale = scale},
           "init_scale: want in [5.42101e-20, 1.84467e+19], got");
  }
  for (const double factor : {1.0, 0.5, -2.0, infinity, nan}) {
    refuse({.growth_factor = factor},
           "growth_factor: want finite and > 1, got");
  }
  for (const double factor : {0.0, 1.0, -0.5, 2.0, infinity, nan}) {
    refuse({.backoff_factor = factor}, "backoff_factor: want in (0, 1), got");
  }
  refuse({.growth_interval = 0}, "growth_interval: want >= 1, got 0");
}

TEST(GradScalerTest, AStateOutOfRangeIsRefusedAndChangesNothing) {
  GradScaler scaler = Make({.init_scale = 100, .growth_interval = 4});
  scaler.Update(kGood);
  const GradScalerState before = scaler.state();
  const auto refuse = [&](float scale, int32_t tracker,
                          const std::string& text) {
    EXPECT_THAT(scaler.Load({.scale = scale, .growth_tracker = tracker}),
                StatusIs(absl::StatusCode::kInvalidArgument, text));
    EXPECT_EQ(scaler.state(), before);
  };
  for (const float scale : {0.0f, -1.0f, 0x1p-65f, 0x1p65f, HUGE_VALF, NAN}) {
    refuse(scale, 0, "grad scaler scale: want in [5.42101e-20, 1.84467e+19]");
  }
  refuse(1, -1, "growth_tracker: want in [0, 4), got -1");
  refuse(1, 4, "growth_tracker: want in [0, 4), got 4");
}

}  // namespace
}  // namespace muonshard
