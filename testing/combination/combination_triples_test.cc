// All triples of features on meshes of up to 8 ranks, on both runtimes: with
// gradients of which every order of additions gives other bits, and with exact
// sums.

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "testing/combination/combination.h"
#include "testing/combination/combination_mesh.h"
#include "testing/combination/combination_runner.h"
#include "testing/rank_harness.h"

namespace muonshard::testing {
namespace {

using SmallParam = std::tuple<size_t, RuntimeCase::Kind, GradientValues>;

class SmallMeshTriplesTest : public ::testing::TestWithParam<SmallParam> {};

TEST_P(SmallMeshTriplesTest, EveryCombinationEqualsTwinAndReference) {
  const auto& [mesh, kind, gradients] = GetParam();
  RunAll(TriplesOfCombinations(), SmallMeshes()[mesh], kind, gradients);
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

}  // namespace
}  // namespace muonshard::testing
