// Ranks arranged along named axes, and the groups that follow from them.
//
// A mesh is written "pp=2,moe_sharding=2,ep=8": axes of any name, order and
// degree. The empty text is a mesh of one rank without axes. No axis has a
// meaning here; what a group is for is the caller's affair.
//
// In this file
//   axis         a name and a degree, the number of coordinates along it
//   coordinates  one number in [0, degree) per axis, in the order of the axes
//   group        the ranks whose coordinates differ only along chosen axes
//
// Ordering     Row-major: the last axis is the fastest. The members of a group,
//              and the groups of a partition by their first members, come in
//              rank order.
// Threads      A mesh is a value and never changes once made.
// Errors       kInvalidArgument  the text or an axis is wrong, or the mesh has
//                                another size than is wanted; names the axis
//              kNotFound         no such axis; lists those there are
//              Ranks, coordinates and axis indices given to the other methods
//              must be in range.

#ifndef TOPOLOGY_MESH_H_
#define TOPOLOGY_MESH_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "topology/rank.h"

namespace muonshard {

struct MeshAxis {
  // Letters, digits and underscores, at least one.
  std::string name;
  // At least 1.
  int32_t degree = 1;

  bool operator==(const MeshAxis&) const = default;
};

class Mesh {
 public:
  // No mesh has more ranks.
  static constexpr int32_t kSizeMax = 1 << 20;

  // One rank, no axes.
  Mesh() = default;

  static absl::StatusOr<Mesh> Parse(absl::string_view text);
  static absl::StatusOr<Mesh> Create(std::vector<MeshAxis> axes);

  // What `Parse` reads as this mesh.
  std::string ToString() const;

  // The number of ranks.
  int32_t size() const { return size_; }
  const std::vector<MeshAxis>& axes() const { return axes_; }

  absl::StatusOr<int> AxisIndex(absl::string_view name) const;
  // In the order of `names`.
  absl::StatusOr<std::vector<int>> AxisIndices(
      std::span<const std::string> names) const;

  std::vector<int32_t> Coordinates(Rank rank) const;
  Rank RankOf(std::span<const int32_t> coordinates) const;

  // The group of `rank` over `axes`: the ranks that vary over these axes, with
  // its own coordinates on all others. Without axes this is `rank` alone. The
  // order of `axes` has no effect, nor has a repetition.
  std::vector<Rank> GroupOf(Rank rank, std::span<const int> axes) const;

  // All groups over `axes`. Every rank is in exactly one.
  std::vector<std::vector<Rank>> Groups(std::span<const int> axes) const;

  // OK if this mesh has `ranks` ranks.
  absl::Status CheckSize(int32_t ranks) const;

  bool operator==(const Mesh&) const = default;

 private:
  std::vector<MeshAxis> axes_;
  // Distance in ranks between neighbours along each axis.
  std::vector<int32_t> strides_;
  int32_t size_ = 1;
};

}  // namespace muonshard

#endif  // TOPOLOGY_MESH_H_
