#include "optimizer/block_layout.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muonshard {
namespace {

// Keeps products of three of them within int64_t.
constexpr int64_t kCountMax = int64_t{1} << 20;

template <typename... Parts>
absl::Status Invalid(absl::string_view kind, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(kind, ": ", parts...));
}

absl::Status CheckCount(absl::string_view kind, absl::string_view field,
                        int64_t count) {
  if (count >= 1 && count <= kCountMax) return absl::OkStatus();
  return Invalid(kind, "want ", field, " in [1, ", kCountMax, "], got ", count);
}

absl::Status CheckCut(absl::string_view kind, const CutDimension& cut) {
  if (cut.dimension != 0 && cut.dimension != 1) {
    return Invalid(kind, "want dimension 0 or 1, got ", cut.dimension);
  }
  if (cut.padding < 0 || cut.padding >= cut.size) {
    return Invalid(kind, "want a padding of at least 0 and less than the size ",
                   cut.size, " of dimension ", cut.dimension, ", got ",
                   cut.padding);
  }
  return absl::OkStatus();
}

std::string CutText(const CutDimension& cut) {
  return absl::StrCat(cut.size, " with a padding of ", cut.padding);
}

absl::StatusOr<Blocks> EqualBlocks(absl::string_view kind, int64_t count,
                                   const CutDimension& cut) {
  if (absl::Status s = CheckCut(kind, cut); !s.ok()) return s;
  const int64_t filled = cut.size - cut.padding;
  if (filled % count != 0) {
    return Invalid(kind, "want a size of dimension ", cut.dimension,
                   " that is a multiple of ", count, " and the padding, got ",
                   CutText(cut));
  }
  return Blocks{
      .dimension = cut.dimension,
      .sizes = std::vector<int64_t>(static_cast<size_t>(count), filled / count),
      .padding = cut.padding};
}

absl::Status CheckProjection(absl::string_view kind,
                             const AttentionProjection& projection) {
  const std::pair<absl::string_view, int64_t> counts[] = {
      {"query_heads", projection.query_heads},
      {"key_heads", projection.key_heads},
      {"head_size", projection.head_size}};
  for (const auto& [field, count] : counts) {
    if (absl::Status s = CheckCount(kind, field, count); !s.ok()) return s;
  }
  if (projection.query_heads % projection.key_heads != 0) {
    return Invalid(kind, "want query_heads to be a multiple of the ",
                   projection.key_heads, " key_heads, got ",
                   projection.query_heads);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Blocks> QkvBlocks(const AttentionProjection& projection,
                                 AttentionBlocks blocks,
                                 const CutDimension& cut) {
  constexpr absl::string_view kKind = "blocks of queries, keys and values";
  if (absl::Status s = CheckProjection(kKind, projection); !s.ok()) return s;
  if (absl::Status s = CheckCut(kKind, cut); !s.ok()) return s;
  if (projection.grouped && blocks == AttentionBlocks::kByProjection) {
    return Invalid(kKind,
                   "want a grouped projection to be cut by head, because the "
                   "queries of its groups are not in one run; got a cut by "
                   "projection");
  }
  const int64_t heads = projection.query_heads * (projection.gated ? 2 : 1) +
                        2 * projection.key_heads;
  const int64_t want = heads * projection.head_size + cut.padding;
  if (want != cut.size) {
    return Invalid(kKind, "want a size of dimension ", cut.dimension, " of ",
                   want, " = ", heads, " heads of ", projection.head_size,
                   " and the padding, got ", CutText(cut));
  }
  Blocks result = {
      .dimension = cut.dimension, .sizes = {}, .padding = cut.padding};
  if (blocks == AttentionBlocks::kByHead) {
    result.sizes.assign(static_cast<size_t>(heads), projection.head_size);
    return result;
  }
  const int64_t queries = projection.query_heads * projection.head_size;
  const int64_t keys = projection.key_heads * projection.head_size;
  result.sizes = {queries, keys, keys};
  if (projection.gated) result.sizes.insert(result.sizes.begin(), queries);
  return result;
}

absl::StatusOr<Blocks> GateUpBlocks(const CutDimension& cut) {
  return EqualBlocks("blocks of gate and up", 2, cut);
}

absl::StatusOr<Blocks> HeadBlocks(int64_t heads, const CutDimension& cut) {
  constexpr absl::string_view kKind = "blocks of heads";
  if (absl::Status s = CheckCount(kKind, "heads", heads); !s.ok()) return s;
  return EqualBlocks(kKind, heads, cut);
}

}  // namespace muonshard
