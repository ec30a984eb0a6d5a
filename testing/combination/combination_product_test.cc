// All features in all combinations, on every mesh of up to 8 ranks and on one
// of 64.

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/data_type.h"
#include "testing/combination/combination.h"
#include "testing/combination/combination_mesh.h"
#include "testing/combination/combination_runner.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"

namespace muonshard::testing {
namespace {

// Some of the product: those with one precision and one of the scaler's values.
class CombinationProductTest
    : public ::testing::TestWithParam<std::tuple<size_t, DataType, bool>> {
 protected:
  static void RunOn(const CombinationMesh& mesh) {
    const auto [index, precision, scaler] = GetParam();
    std::vector<Combination> combinations;
    for (const Combination& combination : AllCombinations()) {
      if (combination.precision != precision) continue;
      if (combination.scaler != scaler) continue;
      combinations.push_back(combination);
    }
    EXPECT_EQ(combinations.size(), 2u * 3 * 2 * 2 * 2 * 4);
    RunAll(combinations, mesh, RuntimeCase::Kind::kSim,
           GradientValues::kExactSums);
  }
};

using SmallMeshProductTest = CombinationProductTest;
using LargeMeshProductTest = CombinationProductTest;

TEST_P(SmallMeshProductTest, EveryCombinationEqualsTwinAndReference) {
  RunOn(SmallMeshes()[std::get<0>(GetParam())]);
}

TEST_P(LargeMeshProductTest, EveryCombinationEqualsTwinAndReference) {
  RunOn(LargeMeshes()[std::get<0>(GetParam())]);
}

std::string NameOf(
    const ::testing::TestParamInfo<std::tuple<size_t, DataType, bool>>& info) {
  const auto& [mesh, precision, scaler] = info.param;
  return absl::StrCat("Mesh", mesh, DataTypeName(precision),
                      scaler ? "Scaled" : "");
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, SmallMeshProductTest,
    ::testing::Combine(::testing::Range(size_t{0}, SmallMeshes().size()),
                       ::testing::Values(DataType::kF32, DataType::kBF16,
                                         DataType::kF16),
                       ::testing::Bool()),
    NameOf);

INSTANTIATE_TEST_SUITE_P(Meshes, LargeMeshProductTest,
                         ::testing::Combine(::testing::Values(size_t{0}),
                                            ::testing::Values(DataType::kF32,
                                                              DataType::kBF16,
                                                              DataType::kF16),
                                            ::testing::Bool()),
                         NameOf);

}  // namespace
}  // namespace muonshard::testing
