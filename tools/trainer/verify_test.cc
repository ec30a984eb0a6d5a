#include "tools/trainer/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/runtime/threads_runtime.h"

namespace muonshard {
namespace {

using ::testing::HasSubstr;

class VerifierTest : public ::testing::Test {
 protected:
  // One vector of two elements on AdamW, without decay.
  std::unique_ptr<Verifier> Make(int32_t ranks) {
    VerifySetup setup;
    ParameterSpec spec;
    spec.name = "vector";
    spec.shape = {2};
    spec.weight_decay = false;
    setup.specs = {spec};
    setup.initial_values = {{1, 2}};
    setup.ranks = ranks;
    auto verifier = Verifier::Create(*runtime_, std::move(setup));
    EXPECT_TRUE(verifier.ok()) << verifier.status();
    return *std::move(verifier);
  }

  const std::unique_ptr<Runtime> runtime_ = NewThreadsRuntime();
};

VerifyDifference Compared(const Verifier& verifier, std::vector<float> values) {
  VerifyDifference difference;
  verifier.Compare(0, values, difference);
  return difference;
}

TEST_F(VerifierTest, BeforeAnyStepTheFirstValuesAreExpected) {
  const auto verifier = Make(2);
  const VerifyDifference none = Compared(*verifier, {1, 2});
  EXPECT_EQ(none.max_abs, 0);
  EXPECT_EQ(none.different_count, 0);
  const VerifyDifference some = Compared(*verifier, {1.5, 2});
  EXPECT_EQ(some.max_abs, 0.5);
  EXPECT_EQ(some.different_count, 1);
}

TEST_F(VerifierTest, TheStepIsTakenWhenTheLastRankHasEndedIt) {
  const auto verifier = Make(2);
  const std::vector<float> gradient = {1, 1};
  verifier->Deposit(0, 1, 0, gradient);
  verifier->Deposit(1, 1, 0, gradient);
  ASSERT_TRUE(verifier->EndBackward(1, 1).ok());
  EXPECT_EQ(Compared(*verifier, {1, 2}).different_count, 0);
  ASSERT_TRUE(verifier->EndBackward(0, 1).ok());
  EXPECT_EQ(Compared(*verifier, {1, 2}).different_count, 2);
}

TEST_F(VerifierTest, MicroBatchesAndRanksAreSummed) {
  const auto split = Make(2);
  const auto whole = Make(2);
  split->Deposit(0, 1, 0, std::vector<float>{1, 8});
  split->Deposit(0, 1, 0, std::vector<float>{2, 16});
  split->Deposit(1, 1, 0, std::vector<float>{4, 32});
  whole->Deposit(0, 1, 0, std::vector<float>{0, 0});
  whole->Deposit(1, 1, 0, std::vector<float>{7, 56});
  for (const int32_t rank : {0, 1}) {
    ASSERT_TRUE(split->EndBackward(rank, 1).ok());
    ASSERT_TRUE(whole->EndBackward(rank, 1).ok());
  }
  // The unsharded parameters, read through the difference to zero.
  EXPECT_EQ(Compared(*split, {0, 0}).max_abs, Compared(*whole, {0, 0}).max_abs);
  EXPECT_NE(Compared(*split, {0, 0}).max_abs, 2);
}

TEST_F(VerifierTest, ARankMayBeAStepAhead) {
  const auto verifier = Make(2);
  const std::vector<float> gradient = {1, 1};
  for (const int64_t step : {1, 2}) {
    verifier->Deposit(0, step, 0, gradient);
    ASSERT_TRUE(verifier->EndBackward(0, step).ok());
  }
  for (const int64_t step : {1, 2}) {
    verifier->Deposit(1, step, 0, gradient);
    ASSERT_TRUE(verifier->EndBackward(1, step).ok());
  }
  EXPECT_GT(Compared(*verifier, {1, 2}).max_abs, 0);
}

TEST_F(VerifierTest, ANegativeZeroAndANanAreDifferences) {
  VerifySetup setup;
  ParameterSpec spec;
  spec.name = "zeros";
  spec.shape = {2};
  setup.specs = {spec};
  setup.initial_values = {{0, 0}};
  const auto verifier = Verifier::Create(*runtime_, std::move(setup));
  ASSERT_TRUE(verifier.ok());
  const VerifyDifference zero = Compared(**verifier, {-0.0f, 0});
  EXPECT_EQ(zero.max_abs, 0);
  EXPECT_EQ(zero.different_count, 1);
  const VerifyDifference nan =
      Compared(**verifier, {std::numeric_limits<float>::quiet_NaN(), 1});
  EXPECT_TRUE(std::isnan(nan.max_abs));
  EXPECT_EQ(nan.different_count, 2);
}

TEST_F(VerifierTest, AnAbsentGradientIsAnErrorThatStays) {
  const auto verifier = Make(1);
  const absl::Status status = verifier->EndBackward(0, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("verify: step 1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("vector"));
  EXPECT_EQ(verifier->EndBackward(0, 2), status);
}

TEST_F(VerifierTest, WrongOptionsAreRefused) {
  VerifySetup setup;
  setup.options.muon.learning_rate = -1;
  EXPECT_EQ(Verifier::Create(*runtime_, std::move(setup)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muonshard
