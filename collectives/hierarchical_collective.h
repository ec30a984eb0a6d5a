// A Collective made of Collectives: what goes between hosts goes once per lane
// and not once per rank.
//
// In this file
//   H x L       hosts and lanes of the group; rank h * L + l is lane l of host
//   h whole       the group itself, H * L ranks host level  the L ranks of the
//   own host, in lane order lane level  the H ranks of the own lane, in host
//   order
//
// Operations   ReduceScatterV, AllGatherV, AllReduce and Broadcast go through
//              the levels; everything else goes through `whole`. The levels
//              may be of different plugins, and each posts one launch however
//              many operations are posted together.
// Bytes        Of a buffer of P bytes, ReduceScatterV and AllGatherV send
//              (H - 1) P between hosts, all ranks together: 1/L of what a flat
//              direct algorithm sends.
// Ordering     As in collective.h. Operations that share no memory overlap, so
//              one bucket travels between hosts while the next is reduced
//              within them; one that touches memory of an earlier one waits
//              for it.
// Numerics     Canonical per level: lanes in order, then hosts in order, with
//              one rounding per level. A scale s is applied once, by the last
//              level, but for f16 and bf16, where the host level scales by 1/L
//              and the lane level by s L, so that no level overflows where the
//              scaled sum does not. An average has the scale 1/(H L). Sum, min
//              and max are not scaled.
// Errors       As in collective.h. When one level breaks the group is broken,
//              and with it the other levels.

#ifndef COLLECTIVES_HIERARCHICAL_COLLECTIVE_H_
#define COLLECTIVES_HIERARCHICAL_COLLECTIVE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "collectives/collective.h"

namespace muonshard {

struct HierarchyLevels {
  std::unique_ptr<Collective> whole;
  std::unique_ptr<Collective> host_level;
  std::unique_ptr<Collective> lane_level;
};

// kInvalidArgument if a level is missing, or its size or the own rank in it
// does not fit the others.
absl::StatusOr<std::unique_ptr<Collective>> NewHierarchicalCollective(
    HierarchyLevels levels);

}  // namespace muonshard

#endif  // COLLECTIVES_HIERARCHICAL_COLLECTIVE_H_
