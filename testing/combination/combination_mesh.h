// Meshes on which all combinations run, and parameters of every role on each.
//
// Axes "tp" and "pp" carry the same data, all others different data. Every mesh
// has at least one of each, so that there is a parameter of every role.

#ifndef TESTING_COMBINATION_COMBINATION_MESH_H_
#define TESTING_COMBINATION_COMBINATION_MESH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "optimizer/parameter_spec.h"
#include "testing/combination/combination.h"
#include "testing/sharded_case.h"

namespace muonshard::testing {

struct CombinationMesh {
  std::string mesh;
  // The host of each rank, one letter each.
  std::string hosts;
  // What a refusal of Hierarchy::kOn says; empty if it is taken.
  std::string refusal;
};

// Of up to 8 ranks.
std::vector<CombinationMesh> SmallMeshes();

// Of 64 ranks, on 8 hosts of 8 lanes: moe_sharding=2, pp=2 and ep=16 in each of
// their six orders.
std::vector<CombinationMesh> LargeMeshes();

// The run of `combination` on `mesh`: in the first step some parameters may
// have no gradient, in the second, with a scaler, one rank's overflows.
ShardedCase CaseOf(const CombinationMesh& mesh, const Combination& combination,
                   GradientValues gradients);

}  // namespace muonshard::testing

#endif  // TESTING_COMBINATION_COMBINATION_MESH_H_
