// A bucket that goes round a hierarchy of two hosts of two lanes.

#ifndef COLLECTIVES_TESTING_HIERARCHY_BUCKET_H_
#define COLLECTIVES_TESTING_HIERARCHY_BUCKET_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/collective.h"
#include "collectives/testing/hierarchy_test.h"

namespace muonshard::testing {

inline constexpr HierarchyShape kSquare = {2, 2};

// Integers, a segment of `kSegment` for each rank.
class Bucket {
 public:
  static constexpr int64_t kSegment = 3;
  static std::vector<int64_t> Counts() {
    return std::vector<int64_t>(4, kSegment);
  }

  explicit Bucket(int64_t value) : elements_(4 * kSegment, value) {}

  ConstBuffer in() const { return ConstBuffer::Of<int64_t>(elements_); }
  MutableBuffer out() { return MutableBuffer::Of<int64_t>(elements_); }
  ConstBuffer segment_in(Rank rank) const {
    return ConstBuffer::Of<int64_t>(segment(rank));
  }
  MutableBuffer segment_out(Rank rank) {
    return MutableBuffer::Of(
        std::span(elements_).subspan(IndexOf(rank) * kSegment, kSegment));
  }
  std::span<const int64_t> elements() const { return elements_; }
  std::span<const int64_t> segment(Rank rank) const {
    return elements().subspan(IndexOf(rank) * kSegment, kSegment);
  }

  // In place.
  absl::StatusOr<Work> Scatter(Collective& group, CallOptions options = {}) {
    return group.ReduceScatterV(in(), segment_out(group.rank()), Counts(),
                                Reduction::Sum(), std::move(options));
  }
  absl::StatusOr<Work> Gather(Collective& group, CallOptions options = {}) {
    return group.AllGatherV(segment_in(group.rank()), out(), Counts(),
                            std::move(options));
  }

 private:
  std::vector<int64_t> elements_;
};

}  // namespace muonshard::testing

#endif  // COLLECTIVES_TESTING_HIERARCHY_BUCKET_H_
