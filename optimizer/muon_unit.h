// A unit of a Muon parameter, as its update takes it.

#ifndef OPTIMIZER_MUON_UNIT_H_
#define OPTIMIZER_MUON_UNIT_H_

#include <cstdint>

#include "optimizer/compute/update.h"
#include "optimizer/parameter_spec.h"

namespace muonshard {

// A unit of `rows` rows, and as many columns as a matrix of `spec` has. Borrows
// the sizes of the blocks from `spec`.
MuonUnit MuonUnitOf(const ParameterSpec& spec, int64_t rows);

}  // namespace muonshard

#endif  // OPTIMIZER_MUON_UNIT_H_
