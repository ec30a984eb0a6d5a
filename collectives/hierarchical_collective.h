// A Collective made of Collectives: what goes between hosts goes once per lane
// and not once per rank.
//
// In this file
//   H x L       hosts and lanes; rank h * L + l is lane l of host h
//   whole       the group itself, H * L ranks
//   host level  the L ranks of the own host, in lane order
//   lane level  the H ranks of the own lane, in host order
//   P_r         bytes of segment r; P all of them
//
// Operations   ReduceScatterV, AllGatherV, AllReduce and Broadcast go through
//              the levels; everything else, Split too, goes through `whole`.
//              The levels may be of different plugins, and hierarchies
//              themselves. Each level posts one launch however many operations
//              of one kind are posted together.
// Bytes        Between hosts, all ranks together: ReduceScatterV and AllGatherV
//              send (H - 1) P, AllReduce twice that, Broadcast (H - 1) P: 1/L
//              of what a flat direct algorithm sends. Counters are those of the
//              group: calls as they were made, bytes by rank of `whole`.
// Ordering     As in collective.h. Each level runs what it gets in order, and
//              operations that share no memory wait for nothing else: one
//              bucket travels between hosts while the next is reduced within
//              them. One that touches memory of an earlier one waits for it.
//              What goes through `whole` waits for all that is in
//              flight, and but for messages all that follows waits for it.
//              Calls of one kind in one batch that share memory which one of
//              them writes are refused with kInvalidArgument.
// Memory       A ReduceScatterV holds, until it ends, scratch for the segments
//              of its lane: the sum of P_(h * L + l) over all h. The others
//              need none.
//              Its levels are freed by the task that destroys it, which waits
//              for others that are breaking them.
// Numerics     Canonical per level: lanes in order, then hosts in order, with
//              one rounding per level. A scale s is applied once, by the last
//              level, but for f16 and bf16, where the host level scales by 1/L
//              and the lane level by s L, so that no level overflows where the
//              scaled sum of finite values does not. An average has the scale
//              1/(H L). Sum, min and max are not scaled, so a sum in 16 bits
//              may overflow within a host.
// Errors       As in collective.h. When one level breaks the group is broken,
//              and with it the other levels, on each rank that has a call in
//              flight or makes one; deadlines are for the rest. Ranks that
//              disagree on a call are told where they meet on a level, and so
//              are those that wait for each other; neither is promised, since
//              they may meet on none.

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

// kInvalidArgument if a level is missing or on another runtime, or its size or
// the own rank in it does not fit the others.
absl::StatusOr<std::unique_ptr<Collective>> NewHierarchicalCollective(
    HierarchyLevels levels);

}  // namespace muonshard

#endif  // COLLECTIVES_HIERARCHICAL_COLLECTIVE_H_
