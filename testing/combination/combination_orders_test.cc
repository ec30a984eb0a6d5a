// All triples of features on 64 ranks, in the orders of axes on which the full
// product would take too long.

#include <gtest/gtest.h>

#include <cstddef>
#include <tuple>

#include "testing/combination/combination.h"
#include "testing/combination/combination_mesh.h"
#include "testing/combination/combination_runner.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"

namespace muonshard::testing {
namespace {

using OrderParam = std::tuple<size_t, GradientValues>;

class CombinationOrdersTest : public ::testing::TestWithParam<OrderParam> {};

TEST_P(CombinationOrdersTest, EveryCombinationEqualsItsTwin) {
  const auto& [order, gradients] = GetParam();
  RunAll(TriplesOfCombinations(), LargeMeshes()[order], RuntimeCase::Kind::kSim,
         gradients);
}

// The product runs on the first order.
INSTANTIATE_TEST_SUITE_P(
    ExactSums, CombinationOrdersTest,
    ::testing::Combine(::testing::Range(size_t{1}, LargeMeshes().size()),
                       ::testing::Values(GradientValues::kExactSums)));

// Random gradients show a wrong order of additions, which exact sums cannot:
// the first of the other orders, and the last, in which all differ from it.
INSTANTIATE_TEST_SUITE_P(
    RandomValues, CombinationOrdersTest,
    ::testing::Combine(::testing::Values(size_t{1}, LargeMeshes().size() - 1),
                       ::testing::Values(GradientValues::kRandom)));

}  // namespace
}  // namespace muonshard::testing
