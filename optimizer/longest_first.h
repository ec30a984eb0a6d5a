// Longest first onto the lightest rank (LPT), with or without regard to hosts.
//
// Errors     kResourceExhausted  names the item that found no place, and the
//                                rank with the most memory left
// Cost       O(items (hosts + log ranks)) without a memory cap.

#ifndef OPTIMIZER_LONGEST_FIRST_H_
#define OPTIMIZER_LONGEST_FIRST_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/assignment_problem.h"

namespace muonshard {

// Returns the rank of each item. Each goes to the lightest rank that has room.
absl::StatusOr<std::vector<int32_t>> LongestFirst(
    const AssignmentProblem& problem);

// As above, but among the ranks whose load would stay within 2 % of the
// lightest, the host with the least load per rank goes first.
absl::StatusOr<std::vector<int32_t>> LongestFirstByHost(
    const AssignmentProblem& problem);

}  // namespace muonshard

#endif  // OPTIMIZER_LONGEST_FIRST_H_
