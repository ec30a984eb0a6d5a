// The memory of a plan's buckets on one rank, and where each parameter lies in
// it.
//
// A bucket has two flat buffers of the same layout: one for gradients, which
// is reduced in place, and one for new parameters, which is gathered in place.
//
// Threads    Pieces do not overlap, so tasks may fill different parameters at
//            once. Who reads and writes when is the affair of Reducer and
//            Updater.

#ifndef OPTIMIZER_BUCKET_BUFFERS_H_
#define OPTIMIZER_BUCKET_BUFFERS_H_

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

  // The own group rank in the bucket's group, and whether this is the first of
  // the replicas, whose segments alone are counted in norms.
  int32_t group_rank(int32_t bucket) const { return at(bucket).group_rank; }
  bool counts_in_norm(int32_t bucket) const { return at(bucket).first_replica; }

  // The whole buffers, and the own segment in each.
  MutableBuffer gradients(int32_t bucket);
  MutableBuffer own_gradients(int32_t bucket);
  MutableBuffer parameters(int32_t bucket);
  MutableBuffer own_parameters(int32_t bucket);

  // The first element of a piece in each buffer.
  std::byte* gradient_of(int32_t bucket, const Piece& piece);
  std::byte* parameter_of(int32_t bucket, const Piece& piece);

  // Where all of a parameter's gradient lies, or null if it is in more than
  // one run or some of it, its padding rows, in none.
  std::byte* whole_gradient_of(int32_t parameter);

 private:
  struct Memory {
    AlignedBuffer gradients;
    AlignedBuffer parameters;
    int32_t group_rank = 0;
    bool first_replica = true;
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
  std::vector<Place> places_;   // By parameter.
};

}  // namespace muonshard

#endif  // OPTIMIZER_BUCKET_BUFFERS_H_
