// All triples of features, where all combinations would take too long.

#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/combination/combination.h"
#include "testing/combination/combination_mesh.h"
#include "testing/combination/combination_runner.h"
#include "testing/rank_harness.h"

namespace muonshard::testing {
namespace {

void RunTriplesOn(const CombinationMesh& mesh, RuntimeCase::Kind kind,
                  GradientValues gradients) {
  CombinationRunner runner(mesh, gradients);
  uint64_t seed = 0;
  for (const Combination& combination : TriplesOfCombinations()) {
    runner.Run(combination, {.kind = kind, .seed = ++seed});
  }
  const RunCounts& counts = runner.counts();
  std::cout << mesh.mesh << ": " << seed << " runs, " << counts.equal
            << " equal, " << counts.refused << " refused" << std::endl;
  EXPECT_EQ(counts.equal + counts.refused, static_cast<int>(seed));
}

using SmallParam = std::tuple<size_t, RuntimeCase::Kind, GradientValues>;

class SmallMeshTriplesTest : public ::testing::TestWithParam<SmallParam> {};

TEST_P(SmallMeshTriplesTest, EveryCombinationEqualsTwinAndReference) {
  const auto& [mesh, kind, gradients] = GetParam();
  RunTriplesOn(SmallMeshes()[mesh], kind, gradients);
}

std::string SmallName(const ::testing::TestParamInfo<SmallParam>& info) {
  const auto& [mesh, kind, gradients] = info.param;
  return absl::StrCat(
      "Mesh", mesh, kind == RuntimeCase::Kind::kSim ? "Sim" : "Threads",
      gradients == GradientValues::kRandom ? "Random" : "Exact");
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, SmallMeshTriplesTest,
    ::testing::Combine(
        ::testing::Range(size_t{0}, SmallMeshes().size()),
        ::testing::Values(RuntimeCase::Kind::kSim, RuntimeCase::Kind::kThreads),
        ::testing::Values(GradientValues::kRandom, GradientValues::kExactSums)),
    SmallName);

class LargeMeshTriplesTest : public ::testing::TestWithParam<size_t> {};

TEST_P(LargeMeshTriplesTest, EveryCombinationEqualsTwinAndReference) {
  RunTriplesOn(LargeMeshes()[GetParam()], RuntimeCase::Kind::kSim,
               GradientValues::kExactSums);
}

// The product runs on the first order.
INSTANTIATE_TEST_SUITE_P(Orders, LargeMeshTriplesTest,
                         ::testing::Range(size_t{1}, size_t{6}));

}  // namespace
}  // namespace muonshard::testing
