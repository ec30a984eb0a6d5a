#include "testing/combination/combination_mesh.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "optimizer/parameter_spec.h"
#include "testing/combination/combination.h"
#include "testing/sharded_case.h"
#include "topology/mesh.h"

namespace muonshard::testing {
namespace {

// The roles that some parameter has over some axis of at least `degree_min`.
std::set<AxisRole> RolesOn(const CombinationMesh& mesh, int32_t degree_min) {
  const ShardedCase sharded =
      CaseOf(mesh, AllCombinations().front(), GradientValues::kExactSums);
  const Mesh parsed = *Mesh::Parse(mesh.mesh);
  std::set<AxisRole> roles;
  for (const ParameterSpec& spec : sharded.specs) {
    for (const MeshAxis& axis : parsed.axes()) {
      if (axis.degree >= degree_min) roles.insert(RoleOver(spec, axis.name));
    }
  }
  return roles;
}

constexpr size_t kRoles = 6;

TEST(CombinationMeshTest, EveryMeshHasParametersOfEveryRole) {
  for (const CombinationMesh& mesh : SmallMeshes()) {
    EXPECT_EQ(RolesOn(mesh, 1).size(), kRoles) << mesh.mesh;
  }
  for (const CombinationMesh& mesh : LargeMeshes()) {
    EXPECT_EQ(RolesOn(mesh, 2).size(), kRoles) << mesh.mesh;
  }
}

// An axis of one rank carries every role and tests none of them.
TEST(CombinationMeshTest, FiveSmallMeshesSpreadEveryRoleOverSeveralRanks) {
  int spread = 0;
  for (const CombinationMesh& mesh : SmallMeshes()) {
    if (RolesOn(mesh, 2).size() == kRoles) ++spread;
  }
  EXPECT_GE(spread, 5);
}

}  // namespace
}  // namespace muonshard::testing
