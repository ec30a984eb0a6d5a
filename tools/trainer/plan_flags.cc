#include "tools/trainer/plan_flags.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muonshard {

void AddBucketFlag(FlagTable& table, double* bucket_mib) {
  constexpr double kBucketMibMax = 1 << 20;
  table.AddNumber("bucket-mib", "largest bucket, in MiB; 0: one parameter each",
                  0, kBucketMibMax, bucket_mib);
}

int64_t BucketBytesMax(double bucket_mib) {
  constexpr double kMiB = 1 << 20;
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::llround(bucket_mib * kMiB)));
}

absl::StatusOr<Mesh> MeshOfFlag(const std::string& text) {
  absl::StatusOr<Mesh> mesh = Mesh::Parse(text);
  if (mesh.ok()) return mesh;
  return absl::Status(mesh.status().code(),
                      absl::StrCat("--mesh: ", mesh.status().message()));
}

}  // namespace muonshard
