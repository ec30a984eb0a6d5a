// The groups over one choice of shard axes: who is in which, at which place.
//
// In this file
//   group      the ranks that vary over the axes, in (host, lane) order
//   replicas   the ranks that have the same place in groups that differ only
//              along the replicate axes, in (host, lane) order. They need not
//              have the same coordinates: groups on unlike hosts are ordered
//              unlike.

#ifndef OPTIMIZER_SHARD_GROUPS_H_
#define OPTIMIZER_SHARD_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "topology/host_map.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {

struct ShardGroups {
  std::vector<std::string> axes;
  int32_t group_size = 1;
  std::vector<int32_t> group_rank;  // Of each rank of the mesh.
  // Host of each group rank, where ranks on one host share a number. If groups
  // differ in this, each group rank is taken for a host of its own.
  std::vector<int32_t> hosts;
};

// `axes` are axes of `mesh`.
ShardGroups MakeShardGroups(const Mesh& mesh, const HostMap& hosts,
                            const std::vector<std::string>& axes);

// The group of `rank` over `axes`.
std::vector<Rank> OrderedGroup(const Mesh& mesh, const HostMap& hosts,
                               const std::vector<std::string>& axes, Rank rank);

// The replicas of `rank`, itself among them.
std::vector<Rank> OrderedReplicas(
    const Mesh& mesh, const HostMap& hosts, const ShardGroups& groups,
    const std::vector<std::string>& replicate_axes, Rank rank);

// The place of each rank of the mesh among its replicas.
std::vector<int32_t> ReplicaPlaces(
    const Mesh& mesh, const HostMap& hosts, const ShardGroups& groups,
    const std::vector<std::string>& replicate_axes);

}  // namespace muonshard

#endif  // OPTIMIZER_SHARD_GROUPS_H_
