#include "optimizer/shard_groups.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace muonshard {
namespace {

std::vector<int> IndicesOf(const Mesh& mesh,
                           const std::vector<std::string>& axes) {
  std::vector<int> indices;
  for (size_t i = 0; i < mesh.axes().size(); ++i) {
    if (std::find(axes.begin(), axes.end(), mesh.axes()[i].name) !=
        axes.end()) {
      indices.push_back(static_cast<int>(i));
    }
  }
  return indices;
}

void SortByHostAndLane(const HostMap& hosts, std::vector<Rank>& ranks) {
  std::sort(ranks.begin(), ranks.end(), [&hosts](Rank a, Rank b) {
    return std::pair(hosts.host(a), hosts.lane(a)) <
           std::pair(hosts.host(b), hosts.lane(b));
  });
}

std::vector<std::string> Union(std::vector<std::string> a,
                               const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Hosts numbered in the order in which `group` meets them.
std::vector<int32_t> HostPattern(const HostMap& hosts,
                                 const std::vector<Rank>& group) {
  std::unordered_map<int32_t, int32_t> number_of_host;
  std::vector<int32_t> pattern;
  for (const Rank rank : group) {
    const int32_t next = static_cast<int32_t>(number_of_host.size());
    pattern.push_back(
        number_of_host.emplace(hosts.host(rank), next).first->second);
  }
  return pattern;
}

}  // namespace

ShardGroups MakeShardGroups(const Mesh& mesh, const HostMap& hosts,
                            const std::vector<std::string>& axes) {
  ShardGroups result = {
      .axes = axes,
      .group_rank = std::vector<int32_t>(static_cast<size_t>(mesh.size()), 0)};
  std::vector<std::vector<Rank>> groups = mesh.Groups(IndicesOf(mesh, axes));
  result.group_size = static_cast<int32_t>(groups.front().size());
  bool patterns_agree = true;
  for (std::vector<Rank>& group : groups) {
    SortByHostAndLane(hosts, group);
    for (size_t i = 0; i < group.size(); ++i) {
      result.group_rank[static_cast<size_t>(ToInt(group[i]))] =
          static_cast<int32_t>(i);
    }
    std::vector<int32_t> pattern = HostPattern(hosts, group);
    if (result.hosts.empty())
      result.hosts = std::move(pattern);
    else
      patterns_agree = patterns_agree && pattern == result.hosts;
  }
  if (!patterns_agree) {
    std::iota(result.hosts.begin(), result.hosts.end(), 0);
  }
  return result;
}

std::vector<Rank> OrderedGroup(const Mesh& mesh, const HostMap& hosts,
                               const std::vector<std::string>& axes,
                               Rank rank) {
  std::vector<Rank> group = mesh.GroupOf(rank, IndicesOf(mesh, axes));
  SortByHostAndLane(hosts, group);
  return group;
}

std::vector<Rank> OrderedReplicas(
    const Mesh& mesh, const HostMap& hosts, const ShardGroups& groups,
    const std::vector<std::string>& replicate_axes, Rank rank) {
  const auto place = [&groups](Rank member) {
    return groups.group_rank[static_cast<size_t>(ToInt(member))];
  };
  std::vector<Rank> replicas;
  for (const Rank member :
       OrderedGroup(mesh, hosts, Union(groups.axes, replicate_axes), rank)) {
    if (place(member) == place(rank)) replicas.push_back(member);
  }
  return replicas;
}

std::vector<int32_t> ReplicaPlaces(
    const Mesh& mesh, const HostMap& hosts, const ShardGroups& groups,
    const std::vector<std::string>& replicate_axes) {
  std::vector<int32_t> places(groups.group_rank.size(), 0);
  for (std::vector<Rank>& copies :
       mesh.Groups(IndicesOf(mesh, Union(groups.axes, replicate_axes)))) {
    SortByHostAndLane(hosts, copies);
    std::vector<int32_t> next(static_cast<size_t>(groups.group_size), 0);
    for (const Rank rank : copies) {
      const size_t r = static_cast<size_t>(ToInt(rank));
      places[r] = next[static_cast<size_t>(groups.group_rank[r])]++;
    }
  }
  return places;
}

}  // namespace muonshard
