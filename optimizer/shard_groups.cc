#include "optimizer/shard_groups.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>

namespace muonshard {
namespace {

// Indices of the axes of `mesh` that any of `lists` names.
std::vector<int> IndicesOf(
    const Mesh& mesh,
    std::initializer_list<const std::vector<std::string>*> lists) {
  std::vector<int> indices;
  for (size_t i = 0; i < mesh.axes().size(); ++i) {
    for (const std::vector<std::string>* names : lists) {
      if (std::find(names->begin(), names->end(), mesh.axes()[i].name) !=
          names->end()) {
        indices.push_back(static_cast<int>(i));
      }
    }
  }
  return indices;
}

std::vector<int> ShardAxes(const BucketClass& bucket_class, const Mesh& mesh) {
  return IndicesOf(mesh, {&bucket_class.shard_axes});
}

// Over which ranks hold the same parameters of the class, in whole or in part.
std::vector<int> HolderAxes(const BucketClass& bucket_class, const Mesh& mesh) {
  return IndicesOf(mesh,
                   {&bucket_class.shard_axes, &bucket_class.replicate_axes,
                    &bucket_class.partial_axes});
}

void Order(const BucketClass& bucket_class, const HostMap& hosts,
           std::vector<Rank>& ranks) {
  if (bucket_class.in_rank_order) {
    std::sort(ranks.begin(), ranks.end());
    return;
  }
  std::sort(ranks.begin(), ranks.end(), [&hosts](Rank a, Rank b) {
    return std::pair(hosts.host(a), hosts.lane(a)) <
           std::pair(hosts.host(b), hosts.lane(b));
  });
}

// `rank` with the coordinates along `axes` set to 0: the same for all ranks
// that differ along these axes only.
Rank FirstAlong(const Mesh& mesh, Rank rank, const std::vector<int>& axes) {
  std::vector<int32_t> coordinates = mesh.Coordinates(rank);
  for (const int axis : axes) coordinates[static_cast<size_t>(axis)] = 0;
  return mesh.RankOf(coordinates);
}

// Those of `ranks`, which are in order, on which the class lives, as groups of
// equal keys, by first members.
template <typename KeyOf>
RankGroups GroupByKey(const Mesh& mesh, const std::vector<Rank>& ranks,
                      KeyOf key_of) {
  const size_t mesh_size = static_cast<size_t>(mesh.size());
  RankGroups result = {.groups = {},
                       .group = std::vector<size_t>(mesh_size, 0),
                       .place = std::vector<int32_t>(mesh_size, -1)};
  std::unordered_map<int64_t, size_t> group_of_key;
  for (const Rank rank : ranks) {
    const size_t r = static_cast<size_t>(ToInt(rank));
    const auto [it, is_new] =
        group_of_key.emplace(key_of(rank), result.groups.size());
    if (is_new) result.groups.emplace_back();
    std::vector<Rank>& group = result.groups[it->second];
    result.group[r] = it->second;
    result.place[r] = static_cast<int32_t>(group.size());
    group.push_back(rank);
  }
  return result;
}

std::vector<Rank> LivingRanks(const BucketClass& bucket_class, const Mesh& mesh,
                              const HostMap& hosts) {
  std::vector<Rank> ranks;
  for (int32_t r = 0; r < mesh.size(); ++r) {
    if (LivesOn(bucket_class, mesh, Rank(r))) ranks.push_back(Rank(r));
  }
  Order(bucket_class, hosts, ranks);
  return ranks;
}

}  // namespace

bool LivesOn(const BucketClass& bucket_class, const Mesh& mesh, Rank rank) {
  if (bucket_class.coordinates.empty()) return true;
  const std::vector<int32_t> own = mesh.Coordinates(rank);
  for (size_t a = 0; a < own.size(); ++a) {
    const auto listed = bucket_class.coordinates.find(mesh.axes()[a].name);
    if (listed == bucket_class.coordinates.end()) continue;
    const std::vector<int32_t>& at = listed->second;
    if (!std::binary_search(at.begin(), at.end(), own[a])) return false;
  }
  return true;
}

RankGroups ShardGroupsOf(const BucketClass& bucket_class, const Mesh& mesh,
                         const HostMap& hosts) {
  const std::vector<int> axes = ShardAxes(bucket_class, mesh);
  return GroupByKey(mesh, LivingRanks(bucket_class, mesh, hosts),
                    [&mesh, &axes](Rank rank) -> int64_t {
                      return ToInt(FirstAlong(mesh, rank, axes));
                    });
}

RankGroups ReplicaGroupsOf(const BucketClass& bucket_class, const Mesh& mesh,
                           const HostMap& hosts) {
  const RankGroups shards = ShardGroupsOf(bucket_class, mesh, hosts);
  const std::vector<int> axes = HolderAxes(bucket_class, mesh);
  return GroupByKey(
      mesh, LivingRanks(bucket_class, mesh, hosts), [&](Rank rank) -> int64_t {
        return int64_t{ToInt(FirstAlong(mesh, rank, axes))} * mesh.size() +
               shards.place_of(rank);
      });
}

std::vector<Rank> ShardGroupOf(const BucketClass& bucket_class,
                               const Mesh& mesh, const HostMap& hosts,
                               Rank rank) {
  std::vector<Rank> group = mesh.GroupOf(rank, ShardAxes(bucket_class, mesh));
  Order(bucket_class, hosts, group);
  return group;
}

std::vector<Rank> ReplicaGroupOf(const BucketClass& bucket_class,
                                 const Mesh& mesh, const HostMap& hosts,
                                 Rank rank) {
  std::vector<Rank> holders =
      mesh.GroupOf(rank, HolderAxes(bucket_class, mesh));
  std::erase_if(holders, [&](Rank holder) {
    return !LivesOn(bucket_class, mesh, holder);
  });
  Order(bucket_class, hosts, holders);
  // A subsequence of all ranks in order, so places are those in the groups.
  const std::vector<int> axes = ShardAxes(bucket_class, mesh);
  const RankGroups shards =
      GroupByKey(mesh, holders, [&mesh, &axes](Rank holder) -> int64_t {
        return ToInt(FirstAlong(mesh, holder, axes));
      });
  std::erase_if(holders, [&shards, rank](Rank holder) {
    return shards.place_of(holder) != shards.place_of(rank);
  });
  return holders;
}

Rank FirstDuplicate(const BucketClass& bucket_class, const Mesh& mesh,
                    Rank rank) {
  if (bucket_class.duplicate_axes.empty()) return rank;
  return FirstAlong(mesh, rank,
                    IndicesOf(mesh, {&bucket_class.duplicate_axes}));
}

bool DuplicatesStandAlike(const BucketClass& bucket_class, const Mesh& mesh,
                          const RankGroups& groups) {
  for (const std::vector<Rank>& group : groups.groups) {
    const std::vector<Rank>& first =
        groups.group_of(FirstDuplicate(bucket_class, mesh, group.front()));
    const bool alike = std::equal(
        group.begin(), group.end(), first.begin(), first.end(),
        [&bucket_class, &mesh](Rank member, Rank of_first) {
          return FirstDuplicate(bucket_class, mesh, member) == of_first;
        });
    if (!alike) return false;
  }
  return true;
}

std::vector<int32_t> HostsOfPlaces(const RankGroups& groups,
                                   const HostMap& hosts) {
  std::vector<int32_t> result;
  for (const std::vector<Rank>& group : groups.groups) {
    // Hosts numbered in the order in which the group meets them.
    std::unordered_map<int32_t, int32_t> number_of_host;
    std::vector<int32_t> pattern;
    for (const Rank rank : group) {
      const int32_t next = static_cast<int32_t>(number_of_host.size());
      pattern.push_back(
          number_of_host.emplace(hosts.host(rank), next).first->second);
    }
    if (result.empty()) result = pattern;
    if (pattern == result) continue;
    std::iota(result.begin(), result.end(), 0);
    break;
  }
  return result;
}

}  // namespace muonshard
