#include "topology/mesh.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace muonshard {
namespace {

absl::Status CheckName(absl::string_view name) {
  if (name.empty()) {
    return absl::InvalidArgumentError("a mesh axis has no name");
  }
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (!absl::ascii_isalnum(byte) && c != '_') {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh axis \"", name,
                       "\": want letters, digits and underscores, got '",
                       absl::string_view(&c, 1), "'"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<MeshAxis> ParseAxis(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("mesh axis \"", text, "\": want NAME=DEGREE"));
  }
  const absl::string_view name = text.substr(0, equals);
  const absl::string_view degree_text = text.substr(equals + 1);
  MeshAxis axis = {.name = std::string(name)};
  // The number parser alone would let "+2" and " 2" pass.
  const bool digits_only =
      !degree_text.empty() &&
      std::all_of(degree_text.begin(), degree_text.end(), [](char c) {
        return absl::ascii_isdigit(static_cast<unsigned char>(c));
      });
  if (!digits_only || !absl::SimpleAtoi(degree_text, &axis.degree)) {
    return absl::InvalidArgumentError(
        absl::StrCat("mesh axis \"", name, "\": want a degree from 1 to ",
                     Mesh::kSizeMax, ", got \"", degree_text, "\""));
  }
  return axis;
}

}  // namespace

absl::StatusOr<Mesh> Mesh::Parse(absl::string_view text) {
  std::vector<MeshAxis> axes;
  if (text.empty()) return Mesh();
  for (const absl::string_view axis_text : absl::StrSplit(text, ',')) {
    absl::StatusOr<MeshAxis> axis = ParseAxis(axis_text);
    if (!axis.ok()) return axis.status();
    axes.push_back(*std::move(axis));
  }
  return Create(std::move(axes));
}

absl::StatusOr<Mesh> Mesh::Create(std::vector<MeshAxis> axes) {
  int64_t size = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const MeshAxis& axis = axes[i];
    if (absl::Status s = CheckName(axis.name); !s.ok()) return s;
    if (axis.degree < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh axis \"", axis.name,
                       "\": want a degree of at least 1, got ", axis.degree));
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name == axis.name) {
        return absl::InvalidArgumentError(
            absl::StrCat("mesh axis \"", axis.name, "\" is given twice"));
      }
    }
    // Both factors are below 2^31, so the product fits.
    size *= axis.degree;
    if (size > kSizeMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh axis \"", axis.name, "\" of degree ", axis.degree,
                       " makes ", size, " ranks, want at most ", kSizeMax));
    }
  }
  Mesh mesh;
  mesh.axes_ = std::move(axes);
  mesh.size_ = static_cast<int32_t>(size);
  mesh.strides_.resize(mesh.axes_.size());
  int32_t stride = 1;
  for (size_t i = mesh.axes_.size(); i-- > 0;) {
    mesh.strides_[i] = stride;
    stride *= mesh.axes_[i].degree;
  }
  return mesh;
}

std::string Mesh::ToString() const {
  return absl::StrJoin(axes_, ",", [](std::string* out, const MeshAxis& axis) {
    absl::StrAppend(out, axis.name, "=", axis.degree);
  });
}

absl::StatusOr<int> Mesh::AxisIndex(absl::string_view name) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return static_cast<int>(i);
  }
  if (axes_.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no mesh axis \"", name, "\": the mesh has no axes"));
  }
  const auto append_name = [](std::string* out, const MeshAxis& axis) {
    out->append(axis.name);
  };
  return absl::NotFoundError(
      absl::StrCat("no mesh axis \"", name, "\"; the axes are ",
                   absl::StrJoin(axes_, ", ", append_name)));
}

absl::StatusOr<std::vector<int>> Mesh::AxisIndices(
    std::span<const std::string> names) const {
  std::vector<int> indices;
  indices.reserve(names.size());
  for (const std::string& name : names) {
    const absl::StatusOr<int> index = AxisIndex(name);
    if (!index.ok()) return index.status();
    indices.push_back(*index);
  }
  return indices;
}

std::vector<int32_t> Mesh::Coordinates(Rank rank) const {
  assert(ToInt(rank) >= 0 && ToInt(rank) < size_);
  std::vector<int32_t> coordinates(axes_.size());
  for (size_t i = 0; i < axes_.size(); ++i) {
    coordinates[i] = ToInt(rank) / strides_[i] % axes_[i].degree;
  }
  return coordinates;
}

Rank Mesh::RankOf(std::span<const int32_t> coordinates) const {
  assert(coordinates.size() == axes_.size());
  int32_t rank = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    assert(coordinates[i] >= 0 && coordinates[i] < axes_[i].degree);
    rank += coordinates[i] * strides_[i];
  }
  return Rank(rank);
}

std::vector<Rank> Mesh::GroupOf(Rank rank, std::span<const int> axes) const {
  std::vector<bool> varies(axes_.size(), false);
  for (const int axis : axes) varies[static_cast<size_t>(axis)] = true;
  const std::vector<int32_t> coordinates = Coordinates(rank);
  // The member with coordinate 0 on each axis that varies; then each such axis,
  // slowest first, multiplies the members, which keeps them in rank order.
  int32_t first = ToInt(rank);
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (varies[i]) first -= coordinates[i] * strides_[i];
  }
  std::vector<Rank> group = {Rank(first)};
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (!varies[i]) continue;
    std::vector<Rank> wider;
    wider.reserve(group.size() * static_cast<size_t>(axes_[i].degree));
    for (const Rank member : group) {
      for (int32_t k = 0; k < axes_[i].degree; ++k) {
        wider.push_back(Rank(ToInt(member) + k * strides_[i]));
      }
    }
    group = std::move(wider);
  }
  return group;
}

std::vector<std::vector<Rank>> Mesh::Groups(std::span<const int> axes) const {
  std::vector<bool> seen(static_cast<size_t>(size_), false);
  std::vector<std::vector<Rank>> groups;
  for (int32_t rank = 0; rank < size_; ++rank) {
    if (seen[static_cast<size_t>(rank)]) continue;
    groups.push_back(GroupOf(Rank(rank), axes));
    for (const Rank member : groups.back()) {
      seen[static_cast<size_t>(ToInt(member))] = true;
    }
  }
  return groups;
}

absl::Status Mesh::CheckSize(int32_t ranks) const {
  if (size_ == ranks) return absl::OkStatus();
  const std::string name = axes_.empty() ? "without axes" : ToString();
  return absl::InvalidArgumentError(
      absl::StrCat("mesh ", name, " has ", size_,
                   size_ == 1 ? " rank" : " ranks", ", want ", ranks));
}

}  // namespace muonshard
