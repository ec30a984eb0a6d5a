// Flags that more than one command gives to the plan.

#ifndef TOOLS_TRAINER_PLAN_FLAGS_H_
#define TOOLS_TRAINER_PLAN_FLAGS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tools/trainer/flags.h"
#include "topology/mesh.h"

namespace muonshard {

// --bucket-mib, which sets `*bucket_mib`.
void AddBucketFlag(FlagTable& table, double* bucket_mib);

// PlanOptions::bucket_bytes_max of a --bucket-mib; at least 1, with which every
// parameter has a bucket of its own.
int64_t BucketBytesMax(double bucket_mib);

// The mesh that --mesh says; an error names the flag.
absl::StatusOr<Mesh> MeshOfFlag(const std::string& text);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_PLAN_FLAGS_H_
