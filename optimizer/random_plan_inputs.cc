#include "optimizer/random_plan_inputs.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectives/data_type.h"
#include "gtest/gtest.h"

namespace muonshard {

RandomPlanInputs::RandomPlanInputs(uint64_t seed) : random_(seed) {
  mesh = *Mesh::Parse(
      Pick<std::string>({"", "dp=1", "dp=5", "dp=2,ep=3", "pp=2,dp=2,ep=2",
                         "ep=4,dp=3", "tp=2,dp=3,pp=4"}));
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis) {
    has_same_data.push_back(Below(3) == 0);
  }
  hosts = RandomHosts();
  const int64_t count = 1 + Below(20);
  for (int64_t i = 0; i < count; ++i) {
    specs.push_back(RandomSpec(absl::StrCat("p", i)));
  }
  options.plan.bucket_bytes_max =
      Pick<int64_t>({1, 1000, 20000, int64_t{25} << 20});
  options.plan.buckets_per_part = static_cast<int32_t>(Below(4));
  options.plan.hierarchy = Pick<Hierarchy>({Hierarchy::kOff, Hierarchy::kAuto});
  options.master_weights = Below(2) == 0;
}

HostMap RandomPlanInputs::RandomHosts() {
  std::vector<std::string> ids;
  const int64_t placement = Below(3);
  const int64_t spread = 2 + Below(2);
  for (int32_t rank = 0; rank < mesh.size(); ++rank) {
    const int64_t host = placement == 0   ? Below(3)
                         : placement == 1 ? rank / spread
                                          : rank % spread;
    ids.push_back(absl::StrCat("host", host));
  }
  return HostMap::FromHostIds(ids);
}

ParameterSpec RandomPlanInputs::RandomSpec(std::string name) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.gradient_dtype = Pick<DataType>({DataType::kF32, DataType::kBF16});
  spec.dtype = Pick<DataType>({DataType::kF32, DataType::kF16});
  spec.check_ins = Below(5) == 0 ? CheckIns::kSyncOnly : CheckIns::kExactly;
  AddRoles(spec);
  if (Below(2) == 0) {
    spec.rule = Rule::kAdamW;
    spec.shape = {Pick<int64_t>({1, 127, 128, 129, 1 + Below(5000)})};
    return spec;
  }
  spec.rule = Rule::kMuon;
  for (const auto& [axis, role] : spec.roles) {
    spec.blockwise = spec.blockwise || role == AxisRole::kSlice;
  }
  spec.shape = {Size(), Size()};
  if (Below(3) == 0) spec.shape.insert(spec.shape.begin(), 1 + Below(4));
  if (Below(3) == 0) AddBlocks(spec);
  return spec;
}

void RandomPlanInputs::AddRoles(ParameterSpec& spec) {
  for (size_t a = 0; a < mesh.axes().size(); ++a) {
    const MeshAxis& axis = mesh.axes()[a];
    const AxisRole role =
        has_same_data[a]
            ? Pick<AxisRole>({AxisRole::kDistinct, AxisRole::kDuplicate,
                              AxisRole::kPartial, AxisRole::kSlice})
            : Pick<AxisRole>({AxisRole::kShard, AxisRole::kShard,
                              AxisRole::kReplicate, AxisRole::kDistinct});
    spec.roles[axis.name] = role;
    const bool has_coordinates =
        role == AxisRole::kDistinct || role == AxisRole::kPartial;
    if (!has_coordinates || Below(2) == 0) continue;
    std::vector<int32_t>& at = spec.coordinates[axis.name];
    for (int32_t i = 0; i < axis.degree; ++i) {
      if (Below(2) == 0) at.push_back(i);
    }
    if (at.empty()) at.push_back(static_cast<int32_t>(Below(axis.degree)));
  }
}

void RandomPlanInputs::AddBlocks(ParameterSpec& spec) {
  spec.blocks.dimension = static_cast<int32_t>(Below(2));
  int64_t left = spec.shape[spec.shape.size() - 2 +
                            static_cast<size_t>(spec.blocks.dimension)];
  while (left > 0) {
    const int64_t size = 1 + Below(left);
    spec.blocks.sizes.push_back(size);
    left -= size;
  }
}

Plan MakePlan(const RandomPlanInputs& inputs) {
  absl::StatusOr<Plan> plan =
      Plan::Create(inputs.specs, inputs.mesh, inputs.hosts, inputs.options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

std::vector<Rank> RanksOf(const Plan& plan, int32_t bucket_class) {
  std::vector<Rank> ranks;
  for (int32_t rank = 0; rank < plan.mesh.size(); ++rank) {
    if (plan.LivesOn(bucket_class, Rank(rank))) ranks.push_back(Rank(rank));
  }
  return ranks;
}

bool Names(const std::vector<std::string>& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

}  // namespace muonshard
