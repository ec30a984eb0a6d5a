// How a model's parameters are laid over the axes of a mesh, by the axes'
// names.
//
// In this file
//   dp        every parameter is copied over it (kReplicate)
//   ep        with experts: expert e of E lives at place e / (E / degree) of
//             this axis, so that its matrices are kDistinct over it. Without
//             experts an axis like any other
//   other     state is cut over it (kShard)
//
// All axes carry different data. What is no matrix of an expert is cut over ep
// as over any other axis.
//
// Errors     kInvalidArgument if the experts do not divide over ep.

#ifndef TOOLS_TRAINER_MODEL_PLACEMENT_H_
#define TOOLS_TRAINER_MODEL_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "optimizer/parameter_spec.h"
#include "tools/trainer/gpt_parameters.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {

inline constexpr absl::string_view kReplicaAxis = "dp";
inline constexpr absl::string_view kExpertAxis = "ep";

// Where a rank's experts are, of all places that experts are spread over.
struct ExpertPlace {
  int32_t index = 0;
  int32_t count = 1;
};

ExpertPlace ExpertPlaceOf(const ByteGptShape& shape, const Mesh& mesh,
                          Rank rank);

absl::Status CheckExperts(const ByteGptShape& shape, const Mesh& mesh);

// Gives `specs`, of the whole model, their roles; banks get the shape that they
// have at one place.
absl::StatusOr<std::vector<ParameterSpec>> PlaceOnMesh(
    const ByteGptShape& shape, std::vector<ParameterSpec> specs,
    const Mesh& mesh);

// The first values at a place of a placed parameter, in its type; `whole` are
// those of the whole model's.
std::vector<std::byte> FirstValuesAt(const ParameterSpec& spec,
                                     std::span<const float> whole,
                                     ExpertPlace place);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_MODEL_PLACEMENT_H_
