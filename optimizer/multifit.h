// MULTIFIT: the least capacity per rank under which first fit, longest first,
// places every item, by bisection.
//
// Result     Items alike in cost and memory are dealt out in rounds over the
//            ranks that hold them, so that neighbours are apart.
// Cost       O(items log ranks) for each of 16 capacities, without a memory
//            cap.

#ifndef OPTIMIZER_MULTIFIT_H_
#define OPTIMIZER_MULTIFIT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "optimizer/assignment_problem.h"

namespace muonshard {

// Returns the rank of each item, all loads below `load_limit`; nothing if no
// capacity that was tried could be kept.
std::optional<std::vector<int32_t>> Multifit(const AssignmentProblem& problem,
                                             int64_t load_limit);

}  // namespace muonshard

#endif  // OPTIMIZER_MULTIFIT_H_
