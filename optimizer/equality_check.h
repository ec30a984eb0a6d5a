// Whether parameters that should be the same on several ranks are: one hash
// of each, compared over the ranks as a part of the control vector.
//
// In this file
//   place  as in parameter_places.h: its ranks hold the same values
//
// Result     A difference within one 8-byte word of a parameter is found;
//            larger ones go unseen with a chance of 2^-64.
// Cost       Reads every parameter that has other ranks in its place, and adds
//            16 bytes for each such parameter and place.

#ifndef OPTIMIZER_EQUALITY_CHECK_H_
#define OPTIMIZER_EQUALITY_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "optimizer/parameter_places.h"
#include "optimizer/plan.h"
#include "topology/rank.h"

namespace muonshard {

class EqualityCheck {
 public:
  // `plan` outlives it.
  EqualityCheck(const Plan& plan, Rank rank);

  // Of the vector whose least is taken over all ranks.
  size_t least_count() const { return least_count_; }

  // Fills `least` from the memory of the parameters that live here;
  // `memory_of` is not asked for others.
  void Encode(
      const std::function<const std::byte*(int32_t parameter)>& memory_of,
      std::span<int64_t> least) const;

  // Of the reduced vector: names the first parameter that differs, and its
  // place.
  absl::Status Check(std::span<const int64_t> least) const;

 private:
  // One parameter with more than one rank in a place.
  struct Slots {
    int32_t parameter = 0;
    size_t first = 0;  // In the vector; two for each place.
    ParameterPlaces places;
    std::optional<size_t> own;  // The place of this rank.
  };

  const Plan& plan_;
  std::vector<Slots> slots_;
  size_t least_count_ = 0;
};

}  // namespace muonshard

#endif  // OPTIMIZER_EQUALITY_CHECK_H_
