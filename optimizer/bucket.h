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
};

// How the ranks of one group are spread. Flat if `hosts` or `lanes` is 1.
struct GroupLevels {
  int32_t hosts = 1;
  int32_t lanes = 1;  // On each host.

  bool hierarchical() const { return hosts > 1 && lanes > 1; }
  bool operator==(const GroupLevels&) const = default;
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

}  // namespace muonshard

#endif  // OPTIMIZER_BUCKET_H_
