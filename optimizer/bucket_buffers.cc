#include "optimizer/bucket_buffers.h"

#include <algorithm>

#include "optimizer/parameter_spec.h"

namespace muonshard {
namespace {

std::byte* ElementAt(const AlignedBuffer& buffer, int64_t offset,
                     DataType type) {
  return buffer.data() + static_cast<size_t>(offset) * ByteWidth(type);
}

}  // namespace

BucketBuffers::BucketBuffers(const Plan& plan, Rank rank)
    : plan_(plan), memory_(plan.buckets.size()), places_(plan.specs.size()) {
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const Bucket& bucket = plan.buckets[b];
    const auto index = static_cast<int32_t>(b);
    for (const int32_t parameter : bucket.parameters) {
      places_[static_cast<size_t>(parameter)].bucket = index;
    }
    for (size_t i = 0; i < bucket.pieces.size(); ++i) {
      places_[static_cast<size_t>(bucket.pieces[i].parameter)].pieces.push_back(
          static_cast<int32_t>(i));
    }
    if (!plan.LivesOn(bucket.bucket_class, rank)) continue;
    const std::vector<Rank> group = plan.GroupOf(bucket.bucket_class, rank);
    Memory& memory = memory_[b];
    memory.parameters =
        AlignedBuffer(static_cast<size_t>(bucket.count) *
                      ByteWidth(class_of(index).parameter_dtype));
    memory.group_rank = static_cast<int32_t>(
        std::find(group.begin(), group.end(), rank) - group.begin());
    memory.counts_in_norm = plan.CountsInNorm(bucket.bucket_class, rank);
  }
}

void BucketBuffers::HoldGradients() {
  for (size_t b = 0; b < memory_.size(); ++b) {
    const auto index = static_cast<int32_t>(b);
    AlignedBuffer& gradients = memory_[b].gradients;
    if (!lives(index) || gradients.data() != nullptr) continue;
    gradients = AlignedBuffer(static_cast<size_t>(bucket_at(index).count) *
                              ByteWidth(class_of(index).gradient_dtype));
    gradient_bytes_ += static_cast<int64_t>(gradients.bytes());
  }
}

void BucketBuffers::ReleaseGradients(int32_t bucket) {
  AlignedBuffer& gradients = memory_[static_cast<size_t>(bucket)].gradients;
  gradient_bytes_ -= static_cast<int64_t>(gradients.bytes());
  gradients = AlignedBuffer();
}

MutableBuffer BucketBuffers::gradients(int32_t bucket) {
  return {at(bucket).gradients.data(), bucket_at(bucket).count,
          class_of(bucket).gradient_dtype};
}

MutableBuffer BucketBuffers::own_gradients(int32_t bucket) {
  const Segment& segment =
      bucket_at(bucket).segments[static_cast<size_t>(group_rank(bucket))];
  const DataType type = class_of(bucket).gradient_dtype;
  return {ElementAt(at(bucket).gradients, segment.offset, type), segment.count,
          type};
}

MutableBuffer BucketBuffers::parameters(int32_t bucket) {
  return {at(bucket).parameters.data(), bucket_at(bucket).count,
          class_of(bucket).parameter_dtype};
}

MutableBuffer BucketBuffers::own_parameters(int32_t bucket) {
  const Segment& segment =
      bucket_at(bucket).segments[static_cast<size_t>(group_rank(bucket))];
  const DataType type = class_of(bucket).parameter_dtype;
  return {ElementAt(at(bucket).parameters, segment.offset, type), segment.count,
          type};
}

std::byte* BucketBuffers::gradient_of(int32_t bucket, const Piece& piece) {
  return ElementAt(at(bucket).gradients, piece.bucket_offset,
                   class_of(bucket).gradient_dtype);
}

std::byte* BucketBuffers::parameter_of(int32_t bucket, const Piece& piece) {
  return ElementAt(at(bucket).parameters, piece.bucket_offset,
                   class_of(bucket).parameter_dtype);
}

std::byte* BucketBuffers::whole_gradient_of(int32_t parameter) {
  const int32_t bucket = bucket_of(parameter);
  if (at(bucket).gradients.data() == nullptr) return nullptr;
  const std::vector<Piece>& pieces = bucket_at(bucket).pieces;
  const std::span<const int32_t> own = pieces_of(parameter);
  const Piece& first = pieces[static_cast<size_t>(own.front())];
  int64_t count = 0;
  for (const int32_t i : own) {
    const Piece& piece = pieces[static_cast<size_t>(i)];
    const bool follows = piece.bucket_offset - first.bucket_offset ==
                         piece.parameter_offset - first.parameter_offset;
    if (!follows) return nullptr;
    count += piece.count;
  }
  const bool whole =
      first.parameter_offset == 0 &&
      count == ElementCount(plan_.specs[static_cast<size_t>(parameter)]);
  return whole ? gradient_of(bucket, first) : nullptr;
}

}  // namespace muonshard
