// The groups of one class of buckets: who is in which, at which place.
//
// In this file
//   shard group    the ranks that vary over the shard axes
//   replica group  the ranks with the same place in shard groups that differ
//                  only along the replicate and partial axes. They need not
//                  have the same coordinates: groups on unlike hosts are
//                  ordered unlike.
//
// Both have only ranks on which the class lives, in (host, lane) order, or in
// rank order where the class says so.

#ifndef OPTIMIZER_SHARD_GROUPS_H_
#define OPTIMIZER_SHARD_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "optimizer/bucket.h"
#include "topology/host_map.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {

// All groups of one kind.
struct RankGroups {
  bool has(Rank rank) const { return place_of(rank) >= 0; }
  int32_t place_of(Rank rank) const {
    return place[static_cast<size_t>(ToInt(rank))];
  }
  const std::vector<Rank>& group_of(Rank rank) const {
    return groups[group[static_cast<size_t>(ToInt(rank))]];
  }

  std::vector<std::vector<Rank>> groups;
  // Of each rank of the mesh: its index in `groups`, and its place in that
  // group, or -1 where the class does not live.
  std::vector<size_t> group;
  std::vector<int32_t> place;
};

bool LivesOn(const BucketClass& bucket_class, const Mesh& mesh, Rank rank);

RankGroups ShardGroupsOf(const BucketClass& bucket_class, const Mesh& mesh,
                         const HostMap& hosts);
RankGroups ReplicaGroupsOf(const BucketClass& bucket_class, const Mesh& mesh,
                           const HostMap& hosts);

// The same groups of one rank, on which the class lives.
std::vector<Rank> ShardGroupOf(const BucketClass& bucket_class,
                               const Mesh& mesh, const HostMap& hosts,
                               Rank rank);
std::vector<Rank> ReplicaGroupOf(const BucketClass& bucket_class,
                                 const Mesh& mesh, const HostMap& hosts,
                                 Rank rank);

// The rank that differs from `rank` along the duplicate axes only and is the
// first along them.
Rank FirstDuplicate(const BucketClass& bucket_class, const Mesh& mesh,
                    Rank rank);

// Whether ranks that differ only along the duplicate axes have the same place,
// in groups of the same ranks but for those axes.
bool DuplicatesStandAlike(const BucketClass& bucket_class, const Mesh& mesh,
                          const RankGroups& groups);

// The host of each place, where ranks on one host share a number. If groups
// differ in this, each place is taken for a host of its own. Numbers count from
// 0.
std::vector<int32_t> HostsOfPlaces(const RankGroups& groups,
                                   const HostMap& hosts);

}  // namespace muonshard

#endif  // OPTIMIZER_SHARD_GROUPS_H_
