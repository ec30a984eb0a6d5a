#include <gtest/gtest.h>

#include <cmath>

#include "collectives/data_type.h"
#include "optimizer/compute/newton_schulz.h"
#include "optimizer/muon_options.h"

namespace muonshard {
namespace {

// Of matrices with m = 2 and n = 3.
constexpr int64_t kWide = 2 * 2 * 2 * 3;
constexpr int64_t kSquare = 2 * 2 * 2 * 2;

MuonOptions GramOptions(int32_t steps, int32_t restart_interval) {
  MuonOptions options;
  options.iteration = NewtonSchulzIteration::kGram;
  options.newton_schulz_steps = steps;
  options.gram_restart_interval = restart_interval;
  return options;
}

TEST(NewtonSchulzFlopsTest, AStandardStepHasThreeProducts) {
  MuonOptions options;
  EXPECT_EQ(NewtonSchulzFlops(2, 3, options), 5 * (2 * kWide + kSquare));
  EXPECT_EQ(NewtonSchulzFlops(3, 2, options), 5 * (2 * kWide + kSquare));
  options.newton_schulz_steps = 1;
  EXPECT_EQ(NewtonSchulzFlops(2, 3, options), 2 * kWide + kSquare);
}

TEST(NewtonSchulzFlopsTest, AGramRunHasTwoWideProductsAndManySquareOnes) {
  // Of a run of k steps: k squares of R, 2 (k - 1) for the next R, k - 1 for Q.
  EXPECT_EQ(NewtonSchulzFlops(2, 3, GramOptions(3, 3)),
            2 * kWide + 9 * kSquare);
  EXPECT_EQ(NewtonSchulzFlops(2, 3, GramOptions(5, 9)),
            2 * kWide + 17 * kSquare);
  EXPECT_EQ(NewtonSchulzFlops(2, 3, GramOptions(5, 2)),
            6 * kWide + (5 + 5 + 1) * kSquare);
}

TEST(NewtonSchulzFlopsTest, GramRunsOfOneStepCostWhatStandardStepsDo) {
  EXPECT_EQ(NewtonSchulzFlops(7, 30, GramOptions(5, 1)),
            NewtonSchulzFlops(7, 30, {}));
}

TEST(NewtonSchulzFlopsTest, AolAddsOneGramMatrix) {
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kAol;
  EXPECT_EQ(NewtonSchulzFlops(2, 3, options),
            4 * (2 * kWide + kSquare) + kWide);
}

TEST(NewtonSchulzFlopsTest, TheNumberOfStepsIsThatOfTheSet) {
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kDeepSeekV4;
  EXPECT_EQ(NewtonSchulzFlops(8, 9, options), 2 * NewtonSchulzFlops(8, 9, {}));
}

TEST(NewtonSchulzFlopsTest, TheApproximationIsTheSameCount) {
  for (const MuonOptions& options :
       {MuonOptions{}, GramOptions(5, 2), GramOptions(8, 3)}) {
    EXPECT_EQ(ApproximateNewtonSchulzFlops(120, 77, options),
              static_cast<double>(NewtonSchulzFlops(120, 77, options)));
  }
  EXPECT_DOUBLE_EQ(ApproximateNewtonSchulzFlops(1 << 30, 1 << 30, {}),
                   30 * std::pow(2.0, 90));
}

TEST(NewtonSchulzWorkspaceTest, CountsTheMatricesOfTheVariant) {
  // Sixteen floats to align the first; matrices of 32 x 64 and 32 x 32 fill
  // whole lines of 64 bytes.
  MuonOptions options;
  EXPECT_EQ(NewtonSchulzWorkspaceCount(32, 64, options),
            2 * 2048 + 2 * 1024 + 16);
  options.newton_schulz_dtype = DataType::kF16;
  EXPECT_EQ(NewtonSchulzWorkspaceCount(64, 32, options),
            2 * 2048 + 2 * 1024 + 16);
  options.iteration = NewtonSchulzIteration::kGram;
  EXPECT_EQ(NewtonSchulzWorkspaceCount(32, 64, options),
            2 * 2048 + 4 * 1024 + 16);
  options.newton_schulz_dtype = DataType::kF64;
  EXPECT_EQ(NewtonSchulzWorkspaceCount(32, 64, options),
            2 * (2 * 2048 + 4 * 1024) + 16);
}

}  // namespace
}  // namespace muonshard
