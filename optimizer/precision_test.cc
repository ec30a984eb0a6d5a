// Every type of parameter with every type of gradient and every way in which
// gradients come, sharded and unsharded.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/data_type.h"
#include "testing/rank_harness.h"
#include "testing/scaled_run.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::AfterStep;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::RunScaled;
using ::muonshard::testing::RunScaledUnsharded;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::ScaledCase;
using ::muonshard::testing::ScaledRun;
using ::testing::Each;

constexpr DataType kTypes[] = {DataType::kF32, DataType::kBF16, DataType::kF16};

// A matrix and a vector for each combination.
std::vector<ParameterSpec> AllCombinations() {
  std::vector<ParameterSpec> specs;
  const auto add = [&specs](DataType dtype, DataType gradient_dtype,
                            GradientMode mode) {
    for (const Rule rule : {Rule::kMuon, Rule::kAdamW}) {
      ParameterSpec spec;
      spec.name = absl::StrCat(RuleName(rule), " ", DataTypeName(dtype), " ",
                               DataTypeName(gradient_dtype), " ",
                               static_cast<int>(mode));
      spec.rule = rule;
      spec.shape = {6, 5};
      if (rule == Rule::kAdamW) spec.shape = {200};
      spec.dtype = dtype;
      spec.gradient_dtype = gradient_dtype;
      spec.gradient_mode = mode;
      specs.push_back(std::move(spec));
    }
  };
  for (const DataType dtype : kTypes) {
    for (const DataType gradient_dtype : kTypes) {
      add(dtype, gradient_dtype, GradientMode::kView);
      add(dtype, gradient_dtype, GradientMode::kCopyLast);
    }
    add(dtype, DataType::kF32, GradientMode::kAccumulate);
  }
  return specs;
}

class PrecisionTest : public ::testing::TestWithParam<RuntimeCase> {};

TEST_P(PrecisionTest, EveryCombinationEqualsTheUnshardedRun) {
  ScaledCase scaled;
  scaled.mesh = "data=3";
  scaled.specs = AllCombinations();
  scaled.scaler.init_scale = 256;
  scaled.steps.resize(3);
  for (size_t i = 0; i < 3; ++i) {
    scaled.steps[i].seed = i;
    scaled.steps[i].options.clip_norm = 1;
  }
  for (const DataType accumulated :
       {DataType::kF64, DataType::kF32, DataType::kBF16, DataType::kF16}) {
    for (const bool master_weights : {true, false}) {
      SCOPED_TRACE(absl::StrCat(DataTypeName(accumulated), master_weights));
      scaled.accumulated_dtype = accumulated;
      scaled.options.master_weights = master_weights;
      const ScaledRun run = RunScaled(scaled, GetParam());
      const auto unsharded = RunScaledUnsharded(scaled);
      ASSERT_THAT(run.results, Each(IsOk()));
      ASSERT_THAT(unsharded, IsOk());
      for (size_t r = 0; r < run.ranks.size(); ++r) {
        const AfterStep& last = run.ranks[r].back();
        EXPECT_TRUE(last.outcome.updated);
        for (size_t p = 0; p < scaled.specs.size(); ++p) {
          EXPECT_TRUE(last.parameters[p] ==
                      (*unsharded)[r].back().parameters[p])
              << "rank " << r << ", " << scaled.specs[p].name;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, PrecisionTest,
                         ::testing::ValuesIn(testing::BothRuntimes(1)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
