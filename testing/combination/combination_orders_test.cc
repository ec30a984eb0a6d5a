// All triples of features on 64 ranks, in the orders of axes on which the full
// product would take too long.

#include <gtest/gtest.h>

#include <cstddef>

#include "testing/combination/combination.h"
#include "testing/combination/combination_mesh.h"
#include "testing/combination/combination_runner.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"

namespace muonshard::testing {
namespace {

class CombinationOrdersTest : public ::testing::TestWithParam<size_t> {};

TEST_P(CombinationOrdersTest, EveryCombinationEqualsTwinAndReference) {
  RunAll(TriplesOfCombinations(), LargeMeshes()[GetParam()],
         RuntimeCase::Kind::kSim, GradientValues::kExactSums);
}

// The product runs on the first order.
INSTANTIATE_TEST_SUITE_P(Orders, CombinationOrdersTest,
                         ::testing::Range(size_t{1}, LargeMeshes().size()));

}  // namespace
}  // namespace muonshard::testing
