#include "optimizer/classification.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "optimizer/group_levels.h"

namespace muonshard {
namespace {

using Axes = std::vector<std::string>;
using Coordinates = std::map<std::string, std::vector<int32_t>>;

// Listed coordinates that are all of an axis do not tell classes apart.
int32_t AddCoordinates(const ParameterSpec& spec, const MeshAxis& axis,
                       BucketClass& bucket_class) {
  const auto listed = spec.coordinates.find(axis.name);
  if (listed == spec.coordinates.end()) return axis.degree;
  const int32_t count = static_cast<int32_t>(listed->second.size());
  if (count < axis.degree) bucket_class.coordinates.insert(*listed);
  return count;
}

BucketClass ClassOf(const ParameterSpec& spec, const Mesh& mesh) {
  BucketClass result = {.gradient_dtype = spec.gradient_dtype,
                        .parameter_dtype = spec.dtype,
                        .sync_only = spec.check_ins == CheckIns::kSyncOnly};
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
      case AxisRole::kPartial:
        result.partial_axes.push_back(axis.name);
        result.replica_size *= AddCoordinates(spec, axis, result);
        break;
      case AxisRole::kDistinct:
        AddCoordinates(spec, axis, result);
        break;
      case AxisRole::kDuplicate:
        result.duplicate_axes.push_back(axis.name);
        break;
      case AxisRole::kSlice:
        break;
    }
  }
  return result;
}

}  // namespace

Classification Classify(const std::vector<ParameterSpec>& specs,
                        const Mesh& mesh, const HostMap& hosts,
                        Hierarchy hierarchy) {
  Classification result;
  std::map<
      std::tuple<Axes, Axes, Axes, Axes, Coordinates, DataType, DataType, bool>,
      int32_t>
      class_of_key;
  std::map<std::tuple<Axes, Coordinates, bool>, int32_t> groups_of_key;
  for (const ParameterSpec& spec : specs) {
    BucketClass made = ClassOf(spec, mesh);
    const auto [it, is_new] = class_of_key.emplace(
        std::tuple(made.shard_axes, made.replicate_axes, made.partial_axes,
                   made.duplicate_axes, made.coordinates, made.gradient_dtype,
                   made.parameter_dtype, made.sync_only),
        static_cast<int32_t>(result.classes.size()));
    result.class_of_parameter.push_back(it->second);
    if (!is_new) continue;
    made.in_rank_order = !DuplicatesReduceAlike(made, mesh, hosts, hierarchy);
    const auto [groups, groups_are_new] = groups_of_key.emplace(
        std::tuple(made.shard_axes, made.coordinates, made.in_rank_order),
        static_cast<int32_t>(result.groups.size()));
    if (groups_are_new) {
      RankGroups ranks = ShardGroupsOf(made, mesh, hosts);
      std::vector<int32_t> hosts_of_places = HostsOfPlaces(ranks, hosts);
      result.groups.push_back({.group_size = made.group_size,
                               .ranks = std::move(ranks),
                               .hosts = std::move(hosts_of_places)});
    }
    result.groups_of_class.push_back(groups->second);
    result.classes.push_back(std::move(made));
  }
  return result;
}

}  // namespace muonshard
