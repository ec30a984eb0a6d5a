// The memory of a plan's buckets on one rank, and where each parameter lies in
// it.
//
// A bucket has two flat buffers of the same layout: one for gradients, which
// is reduced in place, and one for new parameters, which is gathered in place.
// A bucket whose parameters do not live on the rank has neither.
//
// Threads    Pieces do not overlap, so tasks may fill different parameters at
//            once. Who reads, writes and releases when is the affair of Reducer
//            and Updater.
// Memory     That of gradients is there from the first HoldGradients on, but
//            for buckets that were released since the last.

#ifndef OPTIMIZER_BUCKET_BUFFERS_H_
#define OPTIMIZER_BUCKET_BUFFERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/buffer.h"
#include "optimizer/aligned_buffer.h"
#include "optimizer/plan.h"

namespace muonshard {

class BucketBuffers {
 public:
  BucketBuffers(const Plan& plan, Rank rank);

  const Plan& plan() const { return plan_; }

  // Indices into Plan::buckets and the bucket's pieces.
  int32_t bucket_of(int32_t parameter) const {
    return places_[static_cast<size_t>(parameter)].bucket;
  }
  std::span<const int32_t> pieces_of(int32_t parameter) const {
    return places_[static_cast<size_t>(parameter)].pieces;
  }

  // Whether the bucket's parameters live on this rank. If not, its group rank
  // owns no piece, and nothing from `gradients` on is asked of it.
  bool lives(int32_t bucket) const {
    return at(bucket).group_rank != kNoGroupRank;
  }

  // The own group rank in the bucket's group, and whether the own segment is
  // one of those that are counted in norms.
  int32_t group_rank(int32_t bucket) const { return at(bucket).group_rank; }
  bool counts_in_norm(int32_t bucket) const {
    return at(bucket).counts_in_norm;
  }

  // Makes the gradient buffers that are not there, of zeros.
  void HoldGradients();
  // Gives the gradient buffer of a bucket back.
  void ReleaseGradients(int32_t bucket);
  // Bytes of all gradient buffers that are there.
  int64_t gradient_bytes() const { return gradient_bytes_; }

  // The whole buffers, and the own segment in each.
  MutableBuffer gradients(int32_t bucket);
  MutableBuffer own_gradients(int32_t bucket);
  MutableBuffer parameters(int32_t bucket);
  MutableBuffer own_parameters(int32_t bucket);

  // The first element of a piece in each buffer.
  std::byte* gradient_of(int32_t bucket, const Piece& piece);
  std::byte* parameter_of(int32_t bucket, const Piece& piece);

  // Where all of a parameter's gradient lies, or null if it is in more than
  // one run, if some of it, its padding rows, is in none, or if it is not
  // there.
  std::byte* whole_gradient_of(int32_t parameter);

 private:
  static constexpr int32_t kNoGroupRank = -1;

  struct Memory {
    AlignedBuffer gradients;
    AlignedBuffer parameters;
    int32_t group_rank = kNoGroupRank;
    bool counts_in_norm = false;
  };
  struct Place {
    int32_t bucket = 0;
    std::vector<int32_t> pieces;
  };

  const Bucket& bucket_at(int32_t bucket) const {
    return plan_.buckets[static_cast<size_t>(bucket)];
  }
  const BucketClass& class_of(int32_t bucket) const {
    return plan_.classes[static_cast<size_t>(bucket_at(bucket).bucket_class)];
  }
  const Memory& at(int32_t bucket) const {
    return memory_[static_cast<size_t>(bucket)];
  }

  const Plan& plan_;
  std::vector<Memory> memory_;  // By bucket.
  std::atomic<int64_t> gradient_bytes_ = 0;
  std::vector<Place> places_;  // By parameter.
};

}  // namespace muonshard

#endif  // OPTIMIZER_BUCKET_BUFFERS_H_
