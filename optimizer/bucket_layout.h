// Buckets, segments and pieces, once every unit has an owner.
//
// In this file
//   quota   the chunks of a bucket that one group rank gets: an even share; the
//           ranks that get one more rotate from bucket to bucket, so that over
//           all buckets of the same groups no two ranks differ by more than one

#ifndef OPTIMIZER_BUCKET_LAYOUT_H_
#define OPTIMIZER_BUCKET_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "optimizer/bucket.h"
#include "optimizer/classification.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/unit.h"

namespace muonshard {

// Returns the buckets in launch order, without their parts. `units` are those
// of `specs`, by parameter.
std::vector<Bucket> LayOutBuckets(const std::vector<ParameterSpec>& specs,
                                  const Classification& classification,
                                  const std::vector<Unit>& units,
                                  int64_t bucket_bytes_max);

// Joins `buckets` into parts of at most `buckets_per_part`, in update order,
// and sets the part of each. At 0, parts are as even as can be and at most 8.
std::vector<Part> MakeParts(int32_t buckets_per_part,
                            std::vector<Bucket>& buckets);

}  // namespace muonshard

#endif  // OPTIMIZER_BUCKET_LAYOUT_H_
