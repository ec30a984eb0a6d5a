// Every rank, every operation.

#include <gtest/gtest.h>

#include "testing/recovery/death_case.h"

namespace muonshard::testing {
namespace {

class DeathTest : public ::testing::TestWithParam<int32_t> {};

TEST_P(DeathTest, AtAnyOperationIsToldToAllAndRecoveredFrom) {
  ExpectDeathsAreRecoveredFrom(GetParam(), /*stride=*/1);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeathTest, ::testing::Range(0, kDeathRanks));

}  // namespace
}  // namespace muonshard::testing
