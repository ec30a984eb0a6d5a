// Where each parameter lives, and in which order its gradients are folded
// there: a second statement of what roles and hierarchy mean, which shares
// nothing with the plan.
//
// In this file
//   place    one value of a parameter: coordinates over its kDistinct and
//            kSlice axes
//   copy     ranks of a place that differ along kDuplicate axes from those of
//            another copy; all copies have the same gradients
//   group    ranks of a copy that vary over the kShard axes
//   replica  one group of a copy, of those over the kReplicate and kPartial
//            axes
//   lanes    members of a set of ranks on each of its hosts, if the set is
//            reduced in two levels: first these, then the hosts. 0: it is flat.
//
// Ordering   Places by parameter, then by coordinates. Ranks of a group, and
//            replicas at each place in their groups, in (host, lane) order;
//            but where copies would fold in unlike orders or levels, because
//            they lie unlike on their hosts, in rank order, and all flat.
// Errors     kInvalidArgument     `hosts` has not the ranks of `mesh`
//            kFailedPrecondition  no one order holds for all elements: replicas
//                                 come in another order or with other levels at
//                                 another place in their groups. Names the
//                                 parameter.

#ifndef OPTIMIZER_UNSHARDED_GRADIENT_PLACES_H_
#define OPTIMIZER_UNSHARDED_GRADIENT_PLACES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "topology/host_map.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {

struct GradientPlace {
  int32_t parameter = 0;  // Index of its spec.
  // Of each axis over which other values live.
  std::map<std::string, int32_t> coordinates;
  // What the sum of gradients is divided by.
  int64_t divisor = 1;
  // [replica][rank of the group], in fold order: the first copy, whose
  // gradients count.
  std::vector<std::vector<Rank>> groups;
  std::vector<int32_t> group_lanes;  // One per group.
  int32_t replica_lanes = 0;
  // The ranks of all other copies, ascending.
  std::vector<Rank> duplicates;
};

// The ranks that hold the value of `place`, ascending.
std::vector<Rank> RanksOf(const GradientPlace& place);

// All places of all parameters; `specs` are valid for `mesh`. Groups that kOn
// would refuse are flat, as for kAuto.
absl::StatusOr<std::vector<GradientPlace>> GradientPlaces(
    const std::vector<ParameterSpec>& specs, const Mesh& mesh,
    const HostMap& hosts, Hierarchy hierarchy);

}  // namespace muonshard

#endif  // OPTIMIZER_UNSHARDED_GRADIENT_PLACES_H_
