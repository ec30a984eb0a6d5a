// Makes the Blocks of the usual fused matrices.
//
// Errors     kInvalidArgument names the kind of blocks, what was wanted and
//            what was got.

#ifndef OPTIMIZER_BLOCK_LAYOUT_H_
#define OPTIMIZER_BLOCK_LAYOUT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "optimizer/parameter_spec.h"

namespace muonshard {

// What blocks cut: one dimension of the matrices of a parameter.
struct CutDimension {
  int32_t dimension = 0;  // 0 for rows, 1 for columns; as in Blocks.
  int64_t size = 0;       // Of a matrix along it, padding included.
  int64_t padding = 0;    // As in Blocks.
};

// A fused projection to the queries, keys and values of attention. A head has
// `head_size` rows (or columns, as the cut has it) of each.
struct AttentionProjection {
  int64_t query_heads = 0;
  // Of keys, and as many of values. Fewer than query heads: each is shared by a
  // group of query heads, equally large.
  int64_t key_heads = 0;
  int64_t head_size = 0;
  // Whether a gate, as large as the queries, lies behind them.
  bool gated = false;
  // False: all queries, all gates, all keys, all values. True: for each key
  // head in turn its queries, their gates, the key head and its value head.
  bool grouped = false;
};

enum class AttentionBlocks : uint8_t {
  kByProjection,  // One block each of queries, gates, keys and values.
  kByHead,        // One block for each head of each.
};

// A grouped projection can be cut by head only: its queries are not in one run.
absl::StatusOr<Blocks> QkvBlocks(const AttentionProjection& projection,
                                 AttentionBlocks blocks,
                                 const CutDimension& cut);

// The gate and the up projection of a feed-forward layer: two equal blocks.
absl::StatusOr<Blocks> GateUpBlocks(const CutDimension& cut);

// One block for each of `heads` equal heads.
absl::StatusOr<Blocks> HeadBlocks(int64_t heads, const CutDimension& cut);

}  // namespace muonshard

#endif  // OPTIMIZER_BLOCK_LAYOUT_H_
