// Who owns what, and what travels when: a pure function of declared shapes.
//
// In this file
//   unit, chunk, piece, group, segment, count   as in bucket.h
//   replicas  ranks that reduce the same segment over the replicate and partial
//             axes
//
// Result     The same inputs give the same plan on every rank and in every
//            build. Owners depend on shapes, mesh, hosts and costs, never on
//            the bucket size.
// Balance    Units of equal shard axes that live on the same ranks are placed
//            together and alike in all groups, onto the load that ranks carry
//            already: largest groups first, or last if that is lighter. Chunks
//            are dealt out evenly.
// Order      Buckets are in launch order of their reductions: reverse
//            registration order of the parameter that completes them, and then
//            likewise those that are for Finish alone. Parts are in update
//            order: forward order.
// Errors     kInvalidArgument names the parameter, axis or option;
//            kResourceExhausted names the rank and the matrix when a memory
//            cap cannot be kept; kFailedPrecondition the axes and hosts when
//            Hierarchy::kOn cannot be.

#ifndef OPTIMIZER_PLAN_H_
#define OPTIMIZER_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/bucket.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "topology/host_map.h"
#include "topology/mesh.h"

namespace muonshard {

struct Plan {
  // `hosts` has one entry per rank of `mesh`.
  static absl::StatusOr<Plan> Create(const std::vector<ParameterSpec>& specs,
                                     const Mesh& mesh, const HostMap& hosts,
                                     const OptimizerOptions& options);

  // Whether the parameters of `bucket_class` live on `rank`. Where they do not,
  // the rank is in no group of the class, and the next five are not asked.
  bool LivesOn(int32_t bucket_class, Rank rank) const;
  // The ranks of the group of `bucket_class` that `rank` is in, and those that
  // have the same segments over the replicate and partial axes, both in (host,
  // lane) order, or in rank order where the class says so. On unlike hosts,
  // groups order equal coordinates unlike.
  std::vector<Rank> GroupOf(int32_t bucket_class, Rank rank) const;
  std::vector<Rank> ReplicasOf(int32_t bucket_class, Rank rank) const;
  // How these two groups reduce and gather: in two levels, or flat where the
  // hierarchy is off or the group is left flat.
  GroupLevels LevelsOfGroup(int32_t bucket_class, Rank rank) const;
  GroupLevels LevelsOfReplicas(int32_t bucket_class, Rank rank) const;
  // Whether the segments of `rank` count in the global norm: those of one
  // replica and one duplicate do.
  bool CountsInNorm(int32_t bucket_class, Rank rank) const;

  // A hash of `lines`, stable across builds.
  uint64_t Fingerprint() const;

  // max over ranks of the load divided by max(sum / N, c_1, c_N + c_(N+1)),
  // the costs c of the units sorted downwards (over several kinds of groups: of
  // the worst, but for the sum, which is of all ranks that groups join); 1 when
  // there is no unit. No plan of whole matrices can be below 1.
  double imbalance() const { return imbalance_value; }

  Mesh mesh;
  HostMap hosts;
  Hierarchy hierarchy = Hierarchy::kAuto;
  std::vector<ParameterSpec> specs;
  std::vector<BucketClass> classes;
  std::vector<Bucket> buckets;
  std::vector<Part> parts;
  std::vector<int64_t> divisors;     // One per parameter.
  std::vector<GroupSpread> spreads;  // Of groups of several ranks, by class.
  std::vector<RankLoad> rank_load;   // One per rank of the mesh.
  double imbalance_value = 1;
  // No plan of whole matrices has a heaviest rank below this; in flops.
  int64_t whole_unit_bound = 0;
  // Where that bound is above the mean load: the name of the heaviest unit's
  // parameter. Empty if the mean is the bound.
  std::string heaviest_unit;
  // Padding over payload elements, of all buckets.
  double padding_fraction = 0;
  // What all ranks must agree on, one fact a line: options, mesh, parameters,
  // layout. The first line that differs is what an error names.
  std::vector<std::string> lines;
};

}  // namespace muonshard

#endif  // OPTIMIZER_PLAN_H_
