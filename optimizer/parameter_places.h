// Which ranks hold the same values of a parameter.
//
// In this file
//   place  one choice of coordinates over the parameter's kDistinct and kSlice
//          axes, of those at which it lives. Ranks of one place hold the same
//          values, those of different places others.

#ifndef OPTIMIZER_PARAMETER_PLACES_H_
#define OPTIMIZER_PARAMETER_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "optimizer/parameter_spec.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {

class ParameterPlaces {
 public:
  // `spec` is valid for `mesh`.
  ParameterPlaces(const ParameterSpec& spec, const Mesh& mesh);

  size_t count() const { return count_; }
  // Ranks of each place.
  int64_t rank_count() const { return rank_count_; }

  // The place of the rank with these coordinates, in [0, count()); none where
  // the parameter does not live.
  std::optional<size_t> PlaceOf(
      const std::vector<int32_t>& rank_coordinates) const;

  // "ep=1,tp=0"; empty if the parameter lives apart over no axis.
  std::string Name(size_t place) const;

 private:
  struct Axis {
    std::string name;
    std::vector<int32_t> coordinates;  // At which it lives.
    bool apart = false;                // Other coordinates, other places.
  };

  std::vector<Axis> axes_;  // Those of the mesh.
  size_t count_ = 1;
  int64_t rank_count_ = 1;
};

}  // namespace muonshard

#endif  // OPTIMIZER_PARAMETER_PLACES_H_
