// The facts that all ranks must agree on, as text.
//
// Result     Depends on inputs and layout alone: the same in every build, and
//            for a parameter whether a role is listed or implied. Doubles are
//            written such that no two values look the same.

#ifndef OPTIMIZER_PLAN_LINES_H_
#define OPTIMIZER_PLAN_LINES_H_

#include <string>
#include <vector>

#include "optimizer/options.h"
#include "optimizer/plan.h"

namespace muonshard {

// Of a plan that is complete but for its lines.
std::vector<std::string> DescribePlan(const Plan& plan,
                                      const OptimizerOptions& options);

}  // namespace muonshard

#endif  // OPTIMIZER_PLAN_LINES_H_
