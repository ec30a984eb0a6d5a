#include "optimizer/classification.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace muonshard {
namespace {

BucketClass ClassOf(const ParameterSpec& spec, const Mesh& mesh) {
  BucketClass result = {.gradient_dtype = spec.gradient_dtype,
                        .parameter_dtype = spec.dtype};
  for (const MeshAxis& axis : mesh.axes()) {
    switch (RoleOver(spec, axis.name)) {
      case AxisRole::kShard:
        result.shard_axes.push_back(axis.name);
        result.group_size *= axis.degree;
        break;
      case AxisRole::kReplicate:
        result.replicate_axes.push_back(axis.name);
        result.replica_size *= axis.degree;
        break;
      case AxisRole::kDistinct:
      case AxisRole::kDuplicate:
      case AxisRole::kPartial:
      case AxisRole::kSlice:
        break;
    }
  }
  return result;
}

}  // namespace

Classification Classify(const std::vector<ParameterSpec>& specs,
                        const Mesh& mesh, const HostMap& hosts) {
  using Axes = std::vector<std::string>;
  Classification result;
  std::map<std::tuple<Axes, Axes, DataType, DataType>, int32_t> class_of_key;
  std::map<Axes, int32_t> groups_of_axes;
  for (const ParameterSpec& spec : specs) {
    BucketClass made = ClassOf(spec, mesh);
    const auto [it, is_new] = class_of_key.emplace(
        std::tuple(made.shard_axes, made.replicate_axes, made.gradient_dtype,
                   made.parameter_dtype),
        static_cast<int32_t>(result.classes.size()));
    result.class_of_parameter.push_back(it->second);
    if (!is_new) continue;
    const auto [groups, groups_are_new] = groups_of_axes.emplace(
        made.shard_axes, static_cast<int32_t>(result.groups.size()));
    if (groups_are_new) {
      result.groups.push_back(MakeShardGroups(mesh, hosts, made.shard_axes));
    }
    result.groups_of_class.push_back(groups->second);
    result.classes.push_back(std::move(made));
  }
  return result;
}

}  // namespace muonshard
