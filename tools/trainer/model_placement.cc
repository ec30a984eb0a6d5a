#include "tools/trainer/model_placement.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "optimizer/compute/convert.h"

namespace muonshard {
namespace {

// Null without experts or without their axis.
const MeshAxis* ExpertAxisOf(const ByteGptShape& shape, const Mesh& mesh) {
  if (shape.experts == 0) return nullptr;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.name == kExpertAxis) return &axis;
  }
  return nullptr;
}

}  // namespace

ExpertPlace ExpertPlaceOf(const ByteGptShape& shape, const Mesh& mesh,
                          Rank rank) {
  const MeshAxis* axis = ExpertAxisOf(shape, mesh);
  if (axis == nullptr) return {};
  const auto index = static_cast<size_t>(axis - mesh.axes().data());
  return {.index = mesh.Coordinates(rank)[index], .count = axis->degree};
}

absl::Status CheckExperts(const ByteGptShape& shape, const Mesh& mesh) {
  const MeshAxis* axis = ExpertAxisOf(shape, mesh);
  if (axis == nullptr || shape.experts % axis->degree == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "experts: want a multiple of ", axis->degree,
      ", the degree of mesh axis ", kExpertAxis, ", got ", shape.experts));
}

absl::StatusOr<std::vector<ParameterSpec>> PlaceOnMesh(
    const ByteGptShape& shape, std::vector<ParameterSpec> specs,
    const Mesh& mesh) {
  if (absl::Status s = CheckExperts(shape, mesh); !s.ok()) return s;
  const MeshAxis* expert_axis = ExpertAxisOf(shape, mesh);
  for (ParameterSpec& spec : specs) {
    for (const MeshAxis& axis : mesh.axes()) {
      if (axis.name == kReplicaAxis) {
        spec.roles[axis.name] = AxisRole::kReplicate;
      }
    }
  }
  if (expert_axis == nullptr) return specs;
  for (const GptLayerIndices& layer : IndicesOf(shape).layers) {
    for (const int32_t bank : {layer.expert_up, layer.expert_down}) {
      ParameterSpec& spec = specs[static_cast<size_t>(bank)];
      spec.shape[0] /= expert_axis->degree;
      spec.roles[expert_axis->name] = AxisRole::kDistinct;
    }
  }
  return specs;
}

std::vector<std::byte> FirstValuesAt(const ParameterSpec& spec,
                                     std::span<const float> whole,
                                     ExpertPlace place) {
  const auto count = static_cast<size_t>(ElementCount(spec));
  // A bank's own experts lie together; of all else there is the whole.
  const size_t first =
      whole.size() == count ? 0 : count * static_cast<size_t>(place.index);
  std::vector<std::byte> values(count * ByteWidth(spec.dtype));
  FromFloat(spec.dtype, whole.subspan(first, count), values.data());
  return values;
}

}  // namespace muonshard
