// Who owns what, and what travels when: a pure function of declared shapes.
//
// In this file
//   unit      the largest contiguous piece of a Muon parameter that is
//             orthogonalized alone: a matrix, one matrix of a bank, one block
//             of rows. Blocks of columns stay in one unit.
//   chunk     128 elements of an element-wise parameter, counted from its own
//             start; the last may be shorter. Never cut.
//   piece     a contiguous run of one parameter in one segment: one unit, or a
//             run of chunks; it starts at a multiple of 16 elements
//   group     the ranks that vary over a bucket's shard axes, in (host, lane)
//             order; "group rank" is a position in it
//   segment   one group rank's part of a bucket: its units, then its runs, each
//             in the order of the bucket's parameters; may be empty
//   count     elements, and offsets are in elements
//
// Result     The same inputs give the same plan on every rank and in every
//            build. Owners depend on shapes, mesh, hosts and costs, never on
//            the bucket size.
// Balance    Units of equal shard axes are placed together and alike in all
//            groups, onto the load that ranks carry already: largest groups
//            first, or last if that is lighter. Chunks are dealt out evenly.
// Order      Buckets are in launch order of their reductions: reverse
//            registration order of the parameter that completes them. Parts
//            are in update order: forward order.
// Errors     kInvalidArgument names the parameter, axis or option;
//            kResourceExhausted names the rank and the matrix when a memory
//            cap cannot be kept; kUnimplemented is that of a ParameterSpec.

#ifndef OPTIMIZER_PLAN_H_
#define OPTIMIZER_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/data_type.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "topology/host_map.h"
#include "topology/mesh.h"

namespace muonshard {

inline constexpr int64_t kChunkCount = 128;

struct Piece {
  int32_t parameter = 0;         // Index of the parameter's spec.
  int64_t parameter_offset = 0;  // Where the piece starts in the parameter.
  int64_t bucket_offset = 0;     // Where it starts in the bucket.
  int64_t count = 0;
  int32_t owner = 0;  // Group rank whose segment holds it.
  int64_t rows = 0;   // Of a unit; 0 for a run of chunks.
  int64_t cols = 0;
};

struct Segment {
  int64_t offset = 0;   // In the bucket.
  int64_t count = 0;    // Padding included.
  int64_t padding = 0;  // Elements that belong to no parameter; always zero.
};

// Buckets whose parameters share all of this can share a buffer.
struct BucketClass {
  std::vector<std::string> shard_axes;      // In mesh order.
  std::vector<std::string> replicate_axes;  // In mesh order.
  DataType gradient_dtype = DataType::kF32;
  DataType parameter_dtype = DataType::kF32;
  int32_t group_size = 1;    // Ranks over the shard axes.
  int32_t replica_size = 1;  // Ranks over the replicate axes.
};

struct Bucket {
  int32_t bucket_class = 0;         // Index into `Plan::classes`.
  int32_t part = 0;                 // Index into `Plan::parts`.
  int64_t count = 0;                // Sum of the segments' counts.
  std::vector<Segment> segments;    // One per group rank.
  std::vector<Piece> pieces;        // By bucket offset.
  std::vector<int32_t> parameters;  // Reverse registration order.
};

// Buckets that are updated, and then gathered, together.
struct Part {
  std::vector<int32_t> buckets;
};

// What the plan makes of one rank of the mesh.
struct RankLoad {
  int64_t newton_schulz_flops = 0;  // Of its units, per step.
  int64_t state_bytes = 0;          // Momentum and moments.
  int64_t scratch_bytes = 0;  // Workspace of its unit that needs the most.
  // Payload bytes this rank sends in one step, by the formulas of a direct
  // algorithm: s_g (P - P_r) to reduce and s_p (N - 1) P_r to gather a bucket
  // of P elements over N ranks, of which this one's segment has P_r.
  int64_t reduce_bytes = 0;
  int64_t gather_bytes = 0;
  // To all-reduce own segments over R replicas: s_g (P_r - P_rk + (R - 1) P_rk)
  // where replica k of R has P_rk of the segment, an even cut.
  int64_t replicate_bytes = 0;
};

struct Plan {
  // `hosts` has one entry per rank of `mesh`.
  static absl::StatusOr<Plan> Create(const std::vector<ParameterSpec>& specs,
                                     const Mesh& mesh, const HostMap& hosts,
                                     const OptimizerOptions& options);

  // The ranks of the group of `bucket_class` that `rank` is in, and those that
  // have the same segments over the replicate axes, both in (host, lane) order.
  // On unlike hosts, groups order equal coordinates unlike.
  std::vector<Rank> GroupOf(int32_t bucket_class, Rank rank) const;
  std::vector<Rank> ReplicasOf(int32_t bucket_class, Rank rank) const;

  // A hash of `lines`, stable across builds.
  uint64_t Fingerprint() const;

  // max over ranks of the load divided by max(sum / N, c_1, c_N + c_(N+1)),
  // the costs c of the units sorted downwards (over several choices of shard
  // axes: of the worst, but for the sum); 1 when there is no unit. No plan of
  // whole matrices can be below 1.
  double imbalance() const { return imbalance_value; }

  // A table for a person: what is sharded how, owners, bytes, balance.
  std::string Report() const;

  Mesh mesh;
  HostMap hosts;
  std::vector<ParameterSpec> specs;
  std::vector<BucketClass> classes;
  std::vector<Bucket> buckets;
  std::vector<Part> parts;
  std::vector<int64_t> divisors;    // One per parameter.
  std::vector<RankLoad> rank_load;  // One per rank of the mesh.
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
