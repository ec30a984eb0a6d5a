// What the ranks of a plan send in one step, and what they hold on the way.
//
// In this file
//   P         elements of a bucket, of which the segment of rank r has P_r
//   N         ranks of a group, or H x L hosts and lanes; lane l of host h has
//             the segment of P_hl elements, and the segments of lane l on all
//             hosts have S_l together
//   s         bytes of one element: of gradients or of new parameters
//
//                 reduce                      gather
//   flat direct   s (P - P_r)                 s (N - 1) P_r
//   flat ring     s (P - P_r)                 s (P - P_(r+1)), all to rank r+1
//   hierarchical  s (P - S_l) in the host,    s (H - 1) P_hl between hosts,
//                 s (S_l - P_hl) between      s (L - 1) S_l in the host
//
// To reduce a bucket in two levels takes scratch of s S_l.
//
// An all-reduce of n elements is a reduction and a gathering of even shares of
// them; where it is hierarchical, of even shares over the hosts of those over
// the lanes. Where the plugin's algorithms are direct, its counters show the
// bytes of `planned`.

#ifndef OPTIMIZER_WIRE_BYTES_H_
#define OPTIMIZER_WIRE_BYTES_H_

#include "optimizer/plan.h"

namespace muonshard {

// Sets the bytes sent and `hierarchy_scratch_bytes` in `rank_load` of `plan`,
// whose buckets are complete.
void MeasureWire(Plan& plan);

}  // namespace muonshard

#endif  // OPTIMIZER_WIRE_BYTES_H_
