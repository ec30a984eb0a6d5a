// What a plan makes of each rank, and how far that is from the best there is.

#ifndef OPTIMIZER_RANK_LOAD_H_
#define OPTIMIZER_RANK_LOAD_H_

#include <vector>

#include "optimizer/classification.h"
#include "optimizer/options.h"
#include "optimizer/plan.h"
#include "optimizer/unit.h"

namespace muonshard {

// Sets `rank_load`, `padding_fraction`, `imbalance_value`, `whole_unit_bound`
// and `heaviest_unit` of `plan`, whose buckets are complete.
void MeasureLoads(const Classification& classification,
                  const std::vector<Unit>& units,
                  const OptimizerOptions& options, Plan& plan);

}  // namespace muonshard

#endif  // OPTIMIZER_RANK_LOAD_H_
