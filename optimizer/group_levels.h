// Which groups reduce and gather in two levels: hosts that ranks run on, asked
// group by group.
//
//   * A group on one host, or with one rank on each of its hosts, is flat.
//   * A group with the same number of ranks, two or more, on each of its two or
//     more hosts is hierarchical.
//   * Any other is refused under Hierarchy::kOn and flat under kAuto.
//   * Duplicates must get the same bits, so where their groups lie unlike on
//     their hosts, the same: refused under kOn if it makes groups flat that
//     would be hierarchical, else flat and in rank order.
//   * kOn is refused if no group is hierarchical. Under kOff nothing is asked.
//
// Errors     kFailedPrecondition names the option, the axes, the ranks on the
//            hosts, and why

#ifndef OPTIMIZER_GROUP_LEVELS_H_
#define OPTIMIZER_GROUP_LEVELS_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/bucket.h"
#include "optimizer/options.h"
#include "topology/host_map.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {

// Of one group of `bucket_class`.
GroupLevels LevelsOf(const BucketClass& bucket_class,
                     std::span<const Rank> group, const HostMap& hosts,
                     Hierarchy hierarchy);

// Whether the groups of duplicates can be in (host, lane) order: their ranks
// then stand at the same places, and reduce at the same levels.
bool DuplicatesReduceAlike(const BucketClass& bucket_class, const Mesh& mesh,
                           const HostMap& hosts, Hierarchy hierarchy);

// The spreads of all groups of several ranks, by class.
absl::StatusOr<std::vector<GroupSpread>> SpreadGroups(
    const std::vector<BucketClass>& classes, const Mesh& mesh,
    const HostMap& hosts, Hierarchy hierarchy);

}  // namespace muonshard

#endif  // OPTIMIZER_GROUP_LEVELS_H_
