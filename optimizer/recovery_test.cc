// A run in which a group breaks, at any operation, and that goes on with Resync
// on a new group ends with the bits of an undisturbed one.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "testing/rank_harness.h"
#include "testing/recovery/fault_sweep.h"
#include "testing/sharded_case.h"
#include "testing/small_case.h"
#include "testing/two_level_case.h"

namespace muonshard {
namespace {

using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::TwoLevelCase;

// Three steps that recover.
ShardedCase RecoveringCase() {
  ShardedCase sharded = SmallCase();
  sharded.steps = 3;
  sharded.clip_norm = 0.5;
  sharded.recovers = true;
  // Of threads a part is waited for; virtual time costs nothing.
  sharded.options.timeout = absl::Seconds(3);
  return sharded;
}

class RecoveryTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  void ExpectUndisturbed(const ShardedCase& sharded, const std::string& kind,
                         int32_t rank) {
    testing::ExpectUndisturbed(sharded, GetParam(),
                               {.kind = kind, .rank = rank});
  }
};

TEST_P(RecoveryTest, AnAbortAtAnyOperation) {
  for (const GatherMode gather : {GatherMode::kEager, GatherMode::kLazy}) {
    ShardedCase sharded = RecoveringCase();
    sharded.options.gather = gather;
    for (const int32_t rank : {0, 2}) {
      ExpectUndisturbed(sharded, "abort", rank);
    }
  }
}

TEST_P(RecoveryTest, ACallWithoutMemoryAtAnyOperation) {
  ExpectUndisturbed(RecoveringCase(), "memory", 1);
}

// A lost message is noticed by its deadline, so only where the clock is
// virtual.
class SimulatedRecoveryTest : public RecoveryTest {};

TEST_P(SimulatedRecoveryTest, ALostMessageOfAnyOperation) {
  ExpectUndisturbed(RecoveringCase(), "lose", 1);
}

TEST_P(RecoveryTest, ACorruptMessageOfAnyOperation) {
  ExpectUndisturbed(RecoveringCase(), "corrupt", 1);
}

TEST_P(RecoveryTest, ReleasedGradientsAreKeptUntilAllRanksCanDecide) {
  ShardedCase sharded = RecoveringCase();
  sharded.options.release_gradients = true;
  ExpectUndisturbed(sharded, "abort", 0);
}

TEST_P(RecoveryTest, SkippedStepsScalersAndMicroBatches) {
  ShardedCase sharded = RecoveringCase();
  sharded.scaler.emplace();
  sharded.scaler->init_scale = 1024;
  sharded.micro_batches = 2;
  sharded.overflows = {{.rank = Rank(1), .parameter = 1, .step = 2}};
  ExpectUndisturbed(sharded, "abort", 0);
  ExpectUndisturbed(sharded, "abort", 1);
}

// At some operations; recovery_levels_test has all of them.
TEST_P(RecoveryTest, AGroupOfTwoLevels) {
  ShardedCase sharded = TwoLevelCase();
  sharded.recovers = true;
  sharded.options.timeout = absl::Seconds(3);
  testing::ExpectUndisturbed(sharded, GetParam(),
                             {.kind = "abort", .rank = 5, .stride = 10});
}

TEST_P(RecoveryTest, NarrowParametersAndAbsentGradients) {
  ShardedCase sharded = RecoveringCase();
  for (ParameterSpec& spec : sharded.specs) {
    spec.dtype = DataType::kBF16;
    spec.absent_gradient = AbsentGradient::kSkip;
  }
  sharded.has_gradient = [](Rank, int32_t p, int64_t step) {
    return p != 1 || step != 2;
  };
  ExpectUndisturbed(sharded, "abort", 0);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, RecoveryTest,
                         ::testing::ValuesIn(testing::BothRuntimes(3)),
                         testing::RuntimeCaseName);

INSTANTIATE_TEST_SUITE_P(
    Seeds, SimulatedRecoveryTest,
    ::testing::Values(RuntimeCase{.kind = RuntimeCase::Kind::kSim, .seed = 1},
                      RuntimeCase{.kind = RuntimeCase::Kind::kSim, .seed = 2},
                      RuntimeCase{.kind = RuntimeCase::Kind::kSim, .seed = 3}),
    testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
