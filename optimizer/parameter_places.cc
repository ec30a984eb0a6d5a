#include "optimizer/parameter_places.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muonshard {

ParameterPlaces::ParameterPlaces(const ParameterSpec& spec, const Mesh& mesh) {
  for (const MeshAxis& mesh_axis : mesh.axes()) {
    Axis axis = {.name = mesh_axis.name};
    const AxisRole role = RoleOver(spec, axis.name);
    axis.apart = role == AxisRole::kDistinct || role == AxisRole::kSlice;
    const auto listed = spec.coordinates.find(axis.name);
    if (listed != spec.coordinates.end()) {
      axis.coordinates = listed->second;
    } else {
      axis.coordinates.resize(static_cast<size_t>(mesh_axis.degree));
      std::iota(axis.coordinates.begin(), axis.coordinates.end(), 0);
    }
    if (axis.apart) {
      count_ *= axis.coordinates.size();
    } else {
      rank_count_ *= static_cast<int64_t>(axis.coordinates.size());
    }
    axes_.push_back(std::move(axis));
  }
}

std::optional<size_t> ParameterPlaces::PlaceOf(
    const std::vector<int32_t>& rank_coordinates) const {
  size_t place = 0;
  for (size_t a = 0; a < axes_.size(); ++a) {
    const std::vector<int32_t>& at = axes_[a].coordinates;
    const auto found = std::find(at.begin(), at.end(), rank_coordinates[a]);
    if (found == at.end()) return std::nullopt;
    if (!axes_[a].apart) continue;
    place = place * at.size() + static_cast<size_t>(found - at.begin());
  }
  return place;
}

std::string ParameterPlaces::Name(size_t place) const {
  std::string name;
  for (size_t a = axes_.size(); a-- > 0;) {
    const Axis& axis = axes_[a];
    if (!axis.apart) continue;
    const size_t size = axis.coordinates.size();
    name = absl::StrCat(axis.name, "=", axis.coordinates[place % size],
                        name.empty() ? "" : ",", name);
    place /= size;
  }
  return name;
}

}  // namespace muonshard
