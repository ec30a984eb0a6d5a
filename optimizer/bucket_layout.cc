#include "optimizer/bucket_layout.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace muonshard {
namespace {

// 64 bytes of f32, 32 of the 16-bit types: vector loads stay aligned.
constexpr int64_t kAlignmentCount = 16;
// Enough for updates to overlap gathers, and few enough to batch well.
constexpr int32_t kPartCountMax = 8;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The parameters of each bucket, in launch order.
std::vector<Bucket> FillBuckets(const std::vector<ParameterSpec>& specs,
                                const Classification& classification,
                                int64_t bucket_bytes_max) {
  struct OpenBucket {
    Bucket bucket;
    int64_t bytes = 0;
  };
  std::vector<OpenBucket> open(classification.classes.size());
  std::vector<Bucket> closed;
  const auto close = [&closed](OpenBucket& last) {
    if (!last.bucket.parameters.empty()) {
      closed.push_back(std::exchange(last.bucket, {}));
    }
    last.bytes = 0;
  };
  for (size_t p = specs.size(); p-- > 0;) {
    const int32_t bucket_class = classification.class_of_parameter[p];
    OpenBucket& last = open[static_cast<size_t>(bucket_class)];
    const int64_t bytes =
        ElementCount(specs[p]) *
        static_cast<int64_t>(ByteWidth(specs[p].gradient_dtype));
    if (bytes > bucket_bytes_max - last.bytes) close(last);
    last.bucket.bucket_class = bucket_class;
    last.bucket.parameters.push_back(static_cast<int32_t>(p));
    last.bytes += bytes;
  }
  for (OpenBucket& last : open) close(last);
  // A backward pass completes a bucket with the first registered of its
  // parameters; Finish completes those that are for it alone.
  const auto launch_key = [&classification](const Bucket& bucket) {
    const size_t c = static_cast<size_t>(bucket.bucket_class);
    return std::pair(classification.classes[c].sync_only,
                     -bucket.parameters.back());
  };
  std::sort(closed.begin(), closed.end(),
            [&launch_key](const Bucket& a, const Bucket& b) {
              return launch_key(a) < launch_key(b);
            });
  return closed;
}

std::span<const Unit> UnitsOf(const std::vector<Unit>& units,
                              int32_t parameter) {
  const auto [begin, end] = std::equal_range(
      units.begin(), units.end(), Unit{.parameter = parameter},
      [](const Unit& a, const Unit& b) { return a.parameter < b.parameter; });
  return {begin, end};
}

// Deals the chunks of element-wise parameters, in order, to ranks in order.
class ChunkDealer {
 public:
  // `rank_with_more` is the first rank that gets one more than its share; the
  // dealer advances it for the next bucket.
  ChunkDealer(int64_t chunk_count, int32_t group_size, int32_t& rank_with_more)
      : group_size_(group_size),
        share_(chunk_count / group_size),
        more_begin_(rank_with_more),
        more_count_(static_cast<int32_t>(chunk_count % group_size)) {
    rank_with_more = (rank_with_more + more_count_) % group_size;
    left_ = Quota(0);
  }

  void Deal(int32_t parameter, int64_t element_count,
            std::vector<Piece>& pieces) {
    const int64_t chunk_count = DivideUp(element_count, kChunkCount);
    for (int64_t chunk = 0; chunk < chunk_count;) {
      while (left_ == 0) left_ = Quota(++rank_);
      const int64_t run = std::min(left_, chunk_count - chunk);
      const int64_t begin = chunk * kChunkCount;
      const int64_t end = std::min((chunk + run) * kChunkCount, element_count);
      pieces.push_back({.parameter = parameter,
                        .parameter_offset = begin,
                        .count = end - begin,
                        .owner = rank_});
      left_ -= run;
      chunk += run;
    }
  }

 private:
  int64_t Quota(int32_t rank) const {
    const int32_t turn = (rank - more_begin_ + group_size_) % group_size_;
    return share_ + (turn < more_count_ ? 1 : 0);
  }

  const int32_t group_size_;
  const int64_t share_;
  const int32_t more_begin_;
  const int32_t more_count_;
  int32_t rank_ = 0;
  int64_t left_ = 0;  // Of the quota of `rank_`.
};

// All pieces of `bucket`, by owner, without their places.
std::vector<Piece> CutIntoPieces(const std::vector<ParameterSpec>& specs,
                                 const std::vector<Unit>& units,
                                 const Bucket& bucket, int32_t group_size,
                                 int32_t& rank_with_more) {
  std::vector<Piece> pieces;
  int64_t chunk_count = 0;
  for (const int32_t p : bucket.parameters) {
    const ParameterSpec& spec = specs[static_cast<size_t>(p)];
    if (spec.rule != Rule::kMuon) {
      chunk_count += DivideUp(ElementCount(spec), kChunkCount);
      continue;
    }
    for (const Unit& unit : UnitsOf(units, p)) {
      pieces.push_back({.parameter = p,
                        .parameter_offset = unit.offset,
                        .count = unit.count(),
                        .owner = unit.owner,
                        .rows = unit.rows,
                        .cols = unit.cols});
    }
  }
  ChunkDealer dealer(chunk_count, group_size, rank_with_more);
  for (const int32_t p : bucket.parameters) {
    const ParameterSpec& spec = specs[static_cast<size_t>(p)];
    if (spec.rule == Rule::kMuon) continue;
    dealer.Deal(p, ElementCount(spec), pieces);
  }
  // Stable: units stay before runs.
  std::stable_sort(
      pieces.begin(), pieces.end(),
      [](const Piece& a, const Piece& b) { return a.owner < b.owner; });
  return pieces;
}

// Gives `bucket.pieces`, which are by owner, their places.
void PlaceSegments(int32_t group_size, Bucket& bucket) {
  bucket.segments.resize(static_cast<size_t>(group_size));
  int64_t offset = 0;
  auto piece = bucket.pieces.begin();
  for (int32_t rank = 0; rank < group_size; ++rank) {
    Segment& segment = bucket.segments[static_cast<size_t>(rank)];
    segment.offset = offset;
    for (; piece != bucket.pieces.end() && piece->owner == rank; ++piece) {
      piece->bucket_offset = offset;
      const int64_t aligned_count =
          DivideUp(piece->count, kAlignmentCount) * kAlignmentCount;
      segment.padding += aligned_count - piece->count;
      offset += aligned_count;
    }
    segment.count = offset - segment.offset;
  }
  bucket.count = offset;
}

}  // namespace

std::vector<Bucket> LayOutBuckets(const std::vector<ParameterSpec>& specs,
                                  const Classification& classification,
                                  const std::vector<Unit>& units,
                                  int64_t bucket_bytes_max) {
  std::vector<Bucket> buckets =
      FillBuckets(specs, classification, bucket_bytes_max);
  std::vector<int32_t> rank_with_more(classification.groups.size(), 0);
  for (Bucket& bucket : buckets) {
    const size_t groups = static_cast<size_t>(
        classification
            .groups_of_class[static_cast<size_t>(bucket.bucket_class)]);
    const int32_t group_size = classification.groups[groups].group_size;
    bucket.pieces =
        CutIntoPieces(specs, units, bucket, group_size, rank_with_more[groups]);
    PlaceSegments(group_size, bucket);
  }
  return buckets;
}

std::vector<Part> MakeParts(int32_t buckets_per_part,
                            std::vector<Bucket>& buckets) {
  const int64_t bucket_count = static_cast<int64_t>(buckets.size());
  const int64_t part_count =
      buckets_per_part == 0 ? std::min<int64_t>(kPartCountMax, bucket_count)
                            : DivideUp(bucket_count, buckets_per_part);
  std::vector<Part> parts(static_cast<size_t>(part_count));
  for (int64_t i = 0; i < bucket_count; ++i) {
    // Position i of the update order.
    const int64_t part = i * part_count / bucket_count;
    const int64_t bucket = bucket_count - 1 - i;
    buckets[static_cast<size_t>(bucket)].part = static_cast<int32_t>(part);
    parts[static_cast<size_t>(part)].buckets.push_back(
        static_cast<int32_t>(bucket));
  }
  return parts;
}

}  // namespace muonshard
