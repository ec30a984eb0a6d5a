// Which ranks run on which host, from what the ranks say of themselves.
//
// Never computed from rank numbers and a number of devices per host: such
// formulas break for other axis orders and for hosts of unequal size.
//
// In this file
//   host   index of a host, in the order in which hosts first appear by rank
//   lane   index of a rank among the ranks of its host, by rank order
//
// Threads      A host map is a value and never changes once made.
// Errors       kInvalidArgument     the group is empty, names a rank twice, or
//                                   one that the map does not have
//              kFailedPrecondition  the group does not factor; says why
//              Ranks and hosts given to the other methods must be in range.

#ifndef TOPOLOGY_HOST_MAP_H_
#define TOPOLOGY_HOST_MAP_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "topology/rank.h"

namespace muonshard {

// A group as a grid: the same number of its ranks on each of its hosts.
struct HostLaneGrid {
  int32_t hosts = 0;
  // Members of the group on each host. Lanes of the group, counted from 0: a
  // rank whose lane on its host is 5 has lane 0 here if it is the first member.
  int32_t lanes = 0;
  // Row-major [hosts][lanes]: hosts in the order of the map, lanes by rank.
  std::vector<Rank> ranks;

  Rank at(int32_t host, int32_t lane) const {
    return ranks[static_cast<size_t>(host * lanes + lane)];
  }
};

class HostMap {
 public:
  // `host_ids[r]` is the identity of the host of rank r. Any text serves: hosts
  // are the same exactly if their identities are.
  static HostMap FromHostIds(const std::vector<std::string>& host_ids);

  // The number of ranks.
  int32_t size() const { return static_cast<int32_t>(host_of_rank_.size()); }
  int32_t host_count() const { return static_cast<int32_t>(host_ids_.size()); }

  int32_t host(Rank rank) const;
  int32_t lane(Rank rank) const;
  const std::string& host_id(int32_t host) const;
  // The ranks on `host`; element l is the rank of lane l.
  std::span<const Rank> lanes_of(int32_t host) const;

  // `group` as hosts x lanes: 1 x n on one host, n x 1 with one rank per host,
  // else a grid if each of its hosts has the same number of its ranks. The
  // order of `group` has no effect.
  absl::StatusOr<HostLaneGrid> Factor(std::span<const Rank> group) const;

  bool operator==(const HostMap&) const = default;

 private:
  std::vector<std::string> host_ids_;
  std::vector<int32_t> host_of_rank_;
  std::vector<int32_t> lane_of_rank_;
  std::vector<std::vector<Rank>> lanes_;
};

}  // namespace muonshard

#endif  // TOPOLOGY_HOST_MAP_H_
