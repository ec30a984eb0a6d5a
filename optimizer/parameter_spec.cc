#include "optimizer/parameter_spec.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <unordered_set>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muonshard {
namespace {

// Keep sums and products of counts, bytes and costs far from the end of
// int64_t, and the number of units of one parameter within memory.
constexpr int64_t kElementCountMax = int64_t{1} << 40;
constexpr int64_t kUnitCountMax = int64_t{1} << 20;
constexpr int64_t kMatrixDimensionMax = (int64_t{1} << 31) - 1;

template <typename... Parts>
absl::Status Invalid(const ParameterSpec& spec, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat("parameter \"", absl::CEscape(spec.name), "\": ", parts...));
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

absl::Status ValidateShape(const ParameterSpec& spec) {
  const size_t dimensions = spec.shape.size();
  if (spec.rule == Rule::kMuon && dimensions != 2 && dimensions != 3) {
    return Invalid(spec, "shape: want 2 or 3 dimensions for muon, got ",
                   ShapeText(spec.shape));
  }
  if (dimensions == 0) {
    return Invalid(spec, "shape: want at least one dimension, got []");
  }
  int64_t count = 1;
  for (const int64_t size : spec.shape) {
    if (size < 1) {
      return Invalid(spec, "shape: want dimensions of at least 1, got ",
                     ShapeText(spec.shape));
    }
    if (size > kElementCountMax / count) {
      return Invalid(spec, "shape: want at most ", kElementCountMax,
                     " elements, got ", ShapeText(spec.shape));
    }
    // Products of matrices count rows and columns in 32 bits.
    if (spec.rule == Rule::kMuon && size > kMatrixDimensionMax) {
      return Invalid(spec, "shape: want dimensions of at most ",
                     kMatrixDimensionMax, " for muon, got ",
                     ShapeText(spec.shape));
    }
    count *= size;
  }
  return absl::OkStatus();
}

// `size` is that of the dimension that is cut.
absl::Status ValidateBlockSizes(const ParameterSpec& spec, int64_t size) {
  const Blocks& blocks = spec.blocks;
  const int64_t want = size - blocks.padding;
  const std::string what = absl::StrCat(
      want, ", the size of dimension ", blocks.dimension,
      blocks.padding == 0
          ? std::string()
          : absl::StrCat(" without its padding of ", blocks.padding));
  // Compared with what is left of `want`, a sum cannot overflow.
  int64_t left = want;
  for (const int64_t block : blocks.sizes) {
    if (block < 1 || block > left) {
      return Invalid(spec,
                     "blocks.sizes: want sizes of at least 1 that sum to ",
                     what, ", got ", ShapeText(blocks.sizes));
    }
    left -= block;
  }
  if (left != 0) {
    return Invalid(spec, "blocks.sizes: want a sum of ", what, ", got ",
                   want - left, " from ", ShapeText(blocks.sizes));
  }
  return absl::OkStatus();
}

absl::Status ValidateBlocks(const ParameterSpec& spec) {
  const Blocks& blocks = spec.blocks;
  if (blocks.dimension != 0 && blocks.dimension != 1) {
    return Invalid(spec, "blocks.dimension: want 0 or 1, got ",
                   blocks.dimension);
  }
  if (blocks.padding < 0) {
    return Invalid(spec, "blocks.padding: want >= 0, got ", blocks.padding);
  }
  if (spec.rule != Rule::kMuon) {
    if (blocks.sizes.empty() && blocks.padding == 0) return absl::OkStatus();
    return Invalid(spec, "blocks: want none for ", RuleName(spec.rule),
                   ", got ", ShapeText(blocks.sizes), " and a padding of ",
                   blocks.padding);
  }
  const int64_t bank = spec.shape.size() == 3 ? spec.shape[0] : 1;
  const size_t blocks_per_matrix =
      blocks.dimension == 0 && !blocks.sizes.empty() ? blocks.sizes.size() : 1;
  if (bank > kUnitCountMax / static_cast<int64_t>(blocks_per_matrix)) {
    return Invalid(spec, "shape: want at most ", kUnitCountMax,
                   " matrices in one parameter, got ", bank, " of ",
                   blocks_per_matrix, " blocks each");
  }
  const size_t matrix_start = spec.shape.size() - 2;
  const int64_t size =
      spec.shape[matrix_start + static_cast<size_t>(blocks.dimension)];
  if (blocks.padding >= size) {
    return Invalid(spec, "blocks.padding: want less than ", size,
                   ", the size of dimension ", blocks.dimension, ", got ",
                   blocks.padding);
  }
  if (blocks.sizes.empty()) return absl::OkStatus();
  return ValidateBlockSizes(spec, size);
}

absl::Status ValidateDataType(const ParameterSpec& spec,
                              absl::string_view field, DataType dtype) {
  if (dtype == DataType::kF32 || dtype == DataType::kBF16 ||
      dtype == DataType::kF16) {
    return absl::OkStatus();
  }
  return Invalid(spec, field, ": want f32, bf16 or f16, got ",
                 DataTypeName(dtype));
}

absl::Status ValidateRoles(const ParameterSpec& spec, const Mesh& mesh) {
  bool is_cut = false;
  for (const auto& [axis, role] : spec.roles) {
    if (const auto index = mesh.AxisIndex(axis); !index.ok()) {
      return Invalid(spec, "roles: ", index.status().message());
    }
    if (role > AxisRole::kSlice) {
      return Invalid(spec, "roles: want one of the six roles over axis \"",
                     axis, "\", got ", static_cast<int>(role));
    }
    if (role != AxisRole::kSlice) continue;
    is_cut = true;
    if (spec.rule == Rule::kMuon && !spec.blockwise) {
      return Invalid(spec, "roles: slice over axis \"", axis,
                     "\" cuts a muon matrix, whose slices are then "
                     "orthogonalized each by itself; want blockwise to say so, "
                     "or another role");
    }
  }
  if (spec.blockwise && spec.rule != Rule::kMuon) {
    return Invalid(spec, "blockwise: want it of a muon parameter only, got ",
                   RuleName(spec.rule));
  }
  if (spec.blockwise && !is_cut) {
    return Invalid(spec,
                   "blockwise: want an axis over which the parameter is slice, "
                   "got none");
  }
  return absl::OkStatus();
}

absl::Status ValidateCoordinates(const ParameterSpec& spec, const Mesh& mesh) {
  for (const auto& [axis, at] : spec.coordinates) {
    const absl::StatusOr<int> index = mesh.AxisIndex(axis);
    if (!index.ok()) {
      return Invalid(spec, "coordinates: ", index.status().message());
    }
    const AxisRole role = RoleOver(spec, axis);
    if (role != AxisRole::kDistinct && role != AxisRole::kPartial) {
      return Invalid(spec, "coordinates: want axis \"", axis,
                     "\" to be distinct or partial, got ", AxisRoleName(role));
    }
    const int32_t degree = mesh.axes()[static_cast<size_t>(*index)].degree;
    int32_t least = 0;
    for (const int32_t coordinate : at) {
      if (coordinate < least || coordinate >= degree) {
        return Invalid(spec, "coordinates: want ascending ones in [0, ", degree,
                       ") of axis \"", axis, "\", got [",
                       absl::StrJoin(at, ","), "]");
      }
      least = coordinate + 1;
    }
    if (at.empty()) {
      return Invalid(spec, "coordinates: want at least one of axis \"", axis,
                     "\", got []");
    }
  }
  return absl::OkStatus();
}

bool IsAveraged(AxisRole role) {
  return role == AxisRole::kShard || role == AxisRole::kReplicate;
}

bool WantsSameData(AxisRole role) {
  return role == AxisRole::kDuplicate || role == AxisRole::kPartial ||
         role == AxisRole::kSlice;
}

// Over one axis all ranks have the same data, or all have their own.
absl::Status ValidateDataOf(const MeshAxis& axis,
                            const std::vector<ParameterSpec>& specs) {
  const ParameterSpec* averaged = nullptr;
  const ParameterSpec* same = nullptr;
  for (const ParameterSpec& spec : specs) {
    const AxisRole role = RoleOver(spec, axis.name);
    if (averaged == nullptr && IsAveraged(role)) averaged = &spec;
    if (same == nullptr && WantsSameData(role)) same = &spec;
  }
  if (averaged == nullptr || same == nullptr) return absl::OkStatus();
  return Invalid(
      *same, "roles: ", AxisRoleName(RoleOver(*same, axis.name)),
      " over axis \"", axis.name, "\" says that its ranks have the same data, ",
      "but parameter \"", absl::CEscape(averaged->name), "\" is ",
      AxisRoleName(RoleOver(*averaged, axis.name)), " over it",
      averaged->roles.count(axis.name) > 0 ? "" : ", as one that is not listed",
      ", which says that they have not");
}

}  // namespace

int64_t ElementCount(const ParameterSpec& spec) {
  int64_t count = 1;
  for (const int64_t size : spec.shape) count *= size;
  return count;
}

AxisRole RoleOver(const ParameterSpec& spec, absl::string_view axis) {
  const auto it = spec.roles.find(std::string(axis));
  return it == spec.roles.end() ? AxisRole::kShard : it->second;
}

bool LivesOn(const ParameterSpec& spec, const Mesh& mesh, Rank rank) {
  const std::vector<int32_t> own = mesh.Coordinates(rank);
  for (size_t a = 0; a < own.size(); ++a) {
    const auto listed = spec.coordinates.find(mesh.axes()[a].name);
    if (listed == spec.coordinates.end()) continue;
    const std::vector<int32_t>& at = listed->second;
    if (std::find(at.begin(), at.end(), own[a]) == at.end()) return false;
  }
  return true;
}

absl::string_view RuleName(Rule rule) {
  switch (rule) {
    case Rule::kMuon:
      return "muon";
    case Rule::kAdamW:
      return "adamw";
  }
  return "unknown";
}

absl::string_view AxisRoleName(AxisRole role) {
  switch (role) {
    case AxisRole::kShard:
      return "shard";
    case AxisRole::kReplicate:
      return "replicate";
    case AxisRole::kDistinct:
      return "distinct";
    case AxisRole::kDuplicate:
      return "duplicate";
    case AxisRole::kPartial:
      return "partial";
    case AxisRole::kSlice:
      return "slice";
  }
  return "unknown";
}

absl::string_view GradientModeName(GradientMode mode) {
  switch (mode) {
    case GradientMode::kView:
      return "view";
    case GradientMode::kCopyLast:
      return "copy_last";
    case GradientMode::kAccumulate:
      return "accumulate";
  }
  return "unknown";
}

absl::string_view AbsentGradientName(AbsentGradient absent) {
  switch (absent) {
    case AbsentGradient::kError:
      return "error";
    case AbsentGradient::kZeros:
      return "zeros";
    case AbsentGradient::kSkip:
      return "skip";
  }
  return "unknown";
}

absl::string_view CheckInsName(CheckIns check_ins) {
  switch (check_ins) {
    case CheckIns::kExactly:
      return "exactly";
    case CheckIns::kAtMost:
      return "at_most";
    case CheckIns::kSyncOnly:
      return "sync_only";
  }
  return "unknown";
}

absl::Status Validate(const ParameterSpec& spec, const Mesh& mesh) {
  if (spec.name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a parameter of shape ", ShapeText(spec.shape), " has no name"));
  }
  if (spec.rule != Rule::kMuon && spec.rule != Rule::kAdamW) {
    return Invalid(spec, "rule: want muon or adamw, got ",
                   static_cast<int>(spec.rule));
  }
  if (absl::Status s = ValidateShape(spec); !s.ok()) return s;
  if (absl::Status s = ValidateBlocks(spec); !s.ok()) return s;
  if (absl::Status s = ValidateDataType(spec, "dtype", spec.dtype); !s.ok()) {
    return s;
  }
  if (absl::Status s =
          ValidateDataType(spec, "gradient_dtype", spec.gradient_dtype);
      !s.ok()) {
    return s;
  }
  if (spec.gradient_mode == GradientMode::kAccumulate &&
      spec.gradient_dtype != DataType::kF32) {
    return Invalid(spec, "gradient_dtype: want f32 to accumulate, got ",
                   DataTypeName(spec.gradient_dtype));
  }
  if (spec.fan_out_dimension != 0 && spec.fan_out_dimension != 1) {
    return Invalid(spec, "fan_out_dimension: want 0 or 1, got ",
                   spec.fan_out_dimension);
  }
  if (!std::isfinite(spec.learning_rate_scale) ||
      spec.learning_rate_scale <= 0) {
    return Invalid(spec, "learning_rate_scale: want finite and > 0, got ",
                   spec.learning_rate_scale);
  }
  if (absl::Status s = ValidateRoles(spec, mesh); !s.ok()) return s;
  return ValidateCoordinates(spec, mesh);
}

absl::Status ValidateAll(const std::vector<ParameterSpec>& specs,
                         const Mesh& mesh) {
  std::unordered_set<std::string> names;
  for (const ParameterSpec& spec : specs) {
    if (absl::Status s = Validate(spec, mesh); !s.ok()) return s;
    if (!names.insert(spec.name).second) {
      return Invalid(spec, "name: want each name once, got it twice");
    }
  }
  for (const MeshAxis& axis : mesh.axes()) {
    if (absl::Status s = ValidateDataOf(axis, specs); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace muonshard
