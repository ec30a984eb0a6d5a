// Random parameters, meshes and hosts, for what holds of every plan.
//
// Result     A pure function of the seed. Roles agree on which axes have the
//            same data; coordinates, blocks, types and hosts are of all kinds.

#ifndef OPTIMIZER_RANDOM_PLAN_INPUTS_H_
#define OPTIMIZER_RANDOM_PLAN_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "topology/host_map.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {

class RandomPlanInputs {
 public:
  explicit RandomPlanInputs(uint64_t seed);

  Mesh mesh;
  std::vector<bool> has_same_data;  // By axis.
  HostMap hosts;
  std::vector<ParameterSpec> specs;
  OptimizerOptions options;

 private:
  int64_t Below(int64_t limit) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit));
  }

  template <typename T>
  T Pick(std::vector<T> choices) {
    return choices[static_cast<size_t>(
        Below(static_cast<int64_t>(choices.size())))];
  }

  int64_t Size() { return Pick<int64_t>({1, 2, 3, 16, 17, 1 + Below(70)}); }
  HostMap RandomHosts();
  ParameterSpec RandomSpec(std::string name);
  void AddRoles(ParameterSpec& spec);
  void AddBlocks(ParameterSpec& spec);

  std::mt19937_64 random_;
};

// A plan of these inputs; a test fails if there is none.
Plan MakePlan(const RandomPlanInputs& inputs);

// Where the parameters of `bucket_class` live.
std::vector<Rank> RanksOf(const Plan& plan, int32_t bucket_class);

// Whether `axes` has `axis`.
bool Names(const std::vector<std::string>& axes, const std::string& axis);

}  // namespace muonshard

#endif  // OPTIMIZER_RANDOM_PLAN_INPUTS_H_
