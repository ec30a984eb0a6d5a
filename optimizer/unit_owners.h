// The owners of all units: one assignment for each kind of shard groups, which
// holds in all of these groups.
//
// In this file
//   set   the units of the parameters with the same kind of shard groups
//
// A rank is in one group of each set that lives on it, so loads and memory are
// carried from set to set; a group rank counts as its heaviest rank. The sets
// go by group size and then by the ranks they live on, largest first, and then
// smallest first; the lighter result counts, the former on a tie.
//
// Memory     Counted against the cap of a rank, of what lives on it: the state
//            of the units it owns, an even share of the element-wise state,
//            and the workspace of the unit that needs the most, whoever owns
//            it.
// Errors     kResourceExhausted names the rank and the matrix

#ifndef OPTIMIZER_UNIT_OWNERS_H_
#define OPTIMIZER_UNIT_OWNERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "optimizer/classification.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/unit.h"

namespace muonshard {

// Sets `owner` of each of `units`, which are those of `specs`.
absl::Status AssignUnitOwners(const std::vector<ParameterSpec>& specs,
                              const Classification& classification,
                              const OptimizerOptions& options,
                              std::vector<Unit>& units);

}  // namespace muonshard

#endif  // OPTIMIZER_UNIT_OWNERS_H_
