// Some deaths, few enough for the sanitizers.

#include <gtest/gtest.h>

#include "testing/recovery/death_case.h"

namespace muonshard::testing {
namespace {

TEST(DeathSampleTest, OfARankAtSomeOperationsAreRecoveredFrom) {
  ExpectDeathsAreRecoveredFrom(/*rank=*/5, /*stride=*/20);
}

}  // namespace
}  // namespace muonshard::testing
