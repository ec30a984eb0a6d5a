#include "optimizer/check_in.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;
using ::testing::ElementsAre;

std::vector<ParameterSpec> TwoSpecs() {
  ParameterSpec exact;
  exact.name = "exact";
  exact.shape = {4};
  ParameterSpec relaxed = exact;
  relaxed.name = "relaxed";
  relaxed.check_ins = CheckIns::kAtMost;
  relaxed.gradient_mode = GradientMode::kAccumulate;
  return {exact, relaxed};
}

TEST(CheckInLedgerTest, TheFirstAndTheLastTurnOfAStepAreKnown) {
  const std::vector<ParameterSpec> specs = TwoSpecs();
  CheckInLedger ledger(specs, {true, true});
  ledger.Begin(1, 3);
  const auto first = ledger.Count(0, 4, DataType::kF32);
  ASSERT_THAT(first, IsOk());
  EXPECT_TRUE(first->first);
  EXPECT_FALSE(first->last);
  ASSERT_THAT(ledger.Count(0, 4, DataType::kF32), IsOk());
  const auto last = ledger.Count(0, 4, DataType::kF32);
  ASSERT_THAT(last, IsOk());
  EXPECT_FALSE(last->first);
  EXPECT_TRUE(last->last);
}

TEST(CheckInLedgerTest, OneTooManyIsRefusedAndFailsTheStepUntilTheNext) {
  const std::vector<ParameterSpec> specs = TwoSpecs();
  CheckInLedger ledger(specs, {true, true});
  ledger.Begin(4, 1);
  ASSERT_THAT(ledger.Count(0, 4, DataType::kF32), IsOk());
  EXPECT_FALSE(ledger.failure().has_value());
  EXPECT_THAT(ledger.Count(0, 4, DataType::kF32),
              StatusIs(absl::StatusCode::kFailedPrecondition, "step 4"));
  ASSERT_TRUE(ledger.failure().has_value());
  EXPECT_EQ(ledger.failure()->kind, FailureKind::kTooManyCheckIns);
  ledger.Begin(5, 1);
  EXPECT_FALSE(ledger.failure().has_value());
  EXPECT_THAT(ledger.Count(0, 4, DataType::kF32), IsOk());
}

TEST(CheckInLedgerTest, TooFewAreAFailureOnlyOfThoseThatCameAndMustComeAgain) {
  const std::vector<ParameterSpec> specs = TwoSpecs();
  CheckInLedger ledger(specs, {true, true});
  ledger.Begin(1, 2);
  ASSERT_THAT(ledger.Count(1, 4, DataType::kF32), IsOk());
  EXPECT_THAT(ledger.End(), ElementsAre(true, false));
  EXPECT_FALSE(ledger.failure().has_value());
  ledger.Begin(2, 2);
  ASSERT_THAT(ledger.Count(0, 4, DataType::kF32), IsOk());
  EXPECT_THAT(ledger.End(), ElementsAre(false, true));
  ASSERT_TRUE(ledger.failure().has_value());
  EXPECT_EQ(ledger.failure()->kind, FailureKind::kTooFewCheckIns);
}

TEST(CheckInLedgerTest, SizeAndTypeAreChecked) {
  const std::vector<ParameterSpec> specs = TwoSpecs();
  CheckInLedger ledger(specs, {true, true});
  ledger.Begin(1, 1);
  EXPECT_THAT(ledger.Count(1, 3, DataType::kF32),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "want 4 elements of a floating type, got 3 of f32"));
  EXPECT_THAT(ledger.Count(0, 4, DataType::kBF16),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "want 4 elements of f32, got 4 of bf16"));
  EXPECT_THAT(ledger.Count(1, 4, DataType::kI32),
              StatusIs(absl::StatusCode::kInvalidArgument, "got 4 of i32"));
  // An accumulating bucket takes any floating type.
  EXPECT_THAT(ledger.Count(1, 4, DataType::kBF16), IsOk());
  // The failure of the lowest parameter is the one that is reported.
  ASSERT_TRUE(ledger.failure().has_value());
  EXPECT_EQ(ledger.failure()->parameter, 0);
}

TEST(CheckInLedgerTest, ASyncOnlyParameterMayComeAnyNumberOfTimes) {
  std::vector<ParameterSpec> specs = TwoSpecs();
  specs[0].check_ins = CheckIns::kSyncOnly;
  CheckInLedger ledger(specs, {true, true});
  for (const int32_t times : {1, 2, 5}) {
    ledger.Begin(1, 2);
    for (int32_t i = 0; i < times; ++i) {
      const auto turn = ledger.Count(0, 4, DataType::kF32);
      ASSERT_THAT(turn, IsOk());
      EXPECT_EQ(turn->first, i == 0);
      // Another may come, so none is the last.
      EXPECT_FALSE(turn->last);
    }
    EXPECT_THAT(ledger.End(), ElementsAre(false, true));
    EXPECT_FALSE(ledger.failure().has_value());
  }
  ledger.Begin(2, 2);
  EXPECT_THAT(ledger.End(), ElementsAre(true, true));
  EXPECT_FALSE(ledger.failure().has_value());
}

TEST(CheckInLedgerTest, WhatDoesNotLiveHereIsRefusedAndNeverAbsent) {
  const std::vector<ParameterSpec> specs = TwoSpecs();
  CheckInLedger ledger(specs, {false, true});
  ledger.Begin(1, 1);
  EXPECT_THAT(ledger.End(), ElementsAre(false, true));
  EXPECT_FALSE(ledger.failure().has_value());
  ledger.Begin(2, 1);
  EXPECT_THAT(ledger.Count(0, 4, DataType::kF32),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "\"exact\": want it where the parameter lives"));
  ASSERT_TRUE(ledger.failure().has_value());
  EXPECT_EQ(ledger.failure()->kind, FailureKind::kDoesNotLiveHere);
  EXPECT_THAT(ledger.End(), ElementsAre(false, true));
}

}  // namespace
}  // namespace muonshard
