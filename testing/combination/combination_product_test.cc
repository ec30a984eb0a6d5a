// All features in all combinations.

#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/data_type.h"
#include "testing/combination/combination.h"
#include "testing/combination/combination_mesh.h"
#include "testing/combination/combination_runner.h"
#include "testing/rank_harness.h"

namespace muonshard::testing {
namespace {

// Some of the product: those with one precision and one of the scaler's values.
class CombinationProductTest
    : public ::testing::TestWithParam<std::tuple<size_t, DataType, bool>> {
 protected:
  static void RunOn(const CombinationMesh& mesh) {
    const auto [index, precision, scaler] = GetParam();
    CombinationRunner runner(mesh, GradientValues::kExactSums);
    uint64_t seed = 0;
    int count = 0;
    for (const Combination& combination : AllCombinations()) {
      ++seed;
      if (combination.precision != precision) continue;
      if (combination.scaler != scaler) continue;
      runner.Run(combination, {.kind = RuntimeCase::Kind::kSim, .seed = seed});
      ++count;
    }
    const RunCounts& counts = runner.counts();
    std::cout << mesh.mesh << ": " << count << " runs, " << counts.equal
              << " equal, " << counts.refused << " refused" << std::endl;
    EXPECT_EQ(counts.equal + counts.refused, count);
    EXPECT_EQ(count, 2 * 3 * 2 * 2 * 2 * 4);
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
