// What a plan is made of: buckets, their segments and pieces, and the classes
// of buckets that can share a buffer.
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
//   spread    how the ranks of a group are spread over hosts
//   segment   one group rank's part of a bucket: its units, then its runs, each
//             in the order of the bucket's parameters; may be empty
//   count     elements, and offsets are in elements

#ifndef OPTIMIZER_BUCKET_H_
#define OPTIMIZER_BUCKET_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collectives/data_type.h"

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

// Buckets whose parameters share all of this can share a buffer. Axes are in
// mesh order.
struct BucketClass {
  std::vector<std::string> shard_axes;
  std::vector<std::string> replicate_axes;
  std::vector<std::string> partial_axes;
  std::vector<std::string> duplicate_axes;
  // As in ParameterSpec: where the parameters live.
  std::map<std::string, std::vector<int32_t>> coordinates;
  DataType gradient_dtype = DataType::kF32;
  DataType parameter_dtype = DataType::kF32;
  // Reduced by `Finish`, behind all buckets that are not.
  bool sync_only = false;
  int32_t group_size = 1;  // Ranks over the shard axes.
  // Ranks over the replicate and partial axes where the parameters live.
  int32_t replica_size = 1;
  // Groups are in rank order, and flat. So it is where the groups of duplicates
  // lie unlike on their hosts: in (host, lane) order they would fold their
  // gradients in unlike orders, to duplicates that are not the same.
  bool in_rank_order = false;
};

// How the ranks of one group are spread. Flat if `hosts` or `lanes` is 1.
struct GroupLevels {
  int32_t hosts = 1;
  int32_t lanes = 1;  // On each host.

  bool hierarchical() const { return hosts > 1 && lanes > 1; }
  bool operator==(const GroupLevels&) const = default;
};

// Groups of one class that have the same spread, for the report.
struct GroupSpread {
  int32_t bucket_class = 0;
  bool of_replicas = false;  // Of the groups of replicas; else of shards.
  int32_t group_count = 0;
  GroupLevels levels;
  std::string flat_because;  // Empty if the groups are hierarchical.
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

// Payload bytes that one rank sends in one step.
struct WireBytes {
  int64_t sent = 0;
  int64_t across_hosts = 0;  // Of these.

  bool operator==(const WireBytes&) const = default;
};

// What the plan makes of one rank of the mesh. See wire_bytes.h for formulas.
struct RankLoad {
  int64_t newton_schulz_flops = 0;  // Of its units, per step.
  int64_t state_bytes = 0;          // Momentum, moments and masters.
  int64_t scratch_bytes = 0;  // Workspace of its unit that needs the most.
  int64_t buffer_bytes = 0;   // Of gradients and of new parameters.
  // What reductions in two levels hold until they end, if those of all buckets
  // are in flight at once; they may be, and without overlap they are. Neither
  // gathers nor all-reduces over replicas need any.
  int64_t hierarchy_scratch_bytes = 0;
  // To reduce and to gather buckets, and to all-reduce own segments over
  // replicas, at the levels of the plan.
  int64_t reduce_bytes = 0;
  int64_t gather_bytes = 0;
  int64_t replicate_bytes = 0;
  // All three together: as planned, and what they would be if every group were
  // flat, by a direct algorithm and by a ring.
  WireBytes planned;
  WireBytes flat_direct;
  WireBytes flat_ring;
};

}  // namespace muonshard

#endif  // OPTIMIZER_BUCKET_H_
