// What every rule of owner assignment is given, and how its answer is weighed.
//
// In this file
//   order   the items from the longest to the shortest, equal ones by index
//
// Threads    A value; the items and ranks it refers to must outlive it.

#ifndef OPTIMIZER_ASSIGNMENT_PROBLEM_H_
#define OPTIMIZER_ASSIGNMENT_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "optimizer/owner_assignment.h"

namespace muonshard {

struct AssignmentProblem {
  AssignmentProblem(const std::vector<OwnedItem>& all_items,
                    const std::vector<OwnerRank>& all_ranks,
                    int64_t memory_cap);

  // Whether a rank that uses `memory_bytes` can take `item`.
  bool HasRoom(int64_t memory_bytes, const OwnedItem& item) const {
    return memory_bytes_max == 0 ||
           item.memory_bytes <= memory_bytes_max - memory_bytes;
  }

  const std::vector<OwnedItem>& items;
  const std::vector<OwnerRank>& ranks;
  int64_t memory_bytes_max = 0;  // 0: no cap.
  std::vector<size_t> order;
};

// The heaviest load once item i is on rank `owners[i]`.
int64_t HeaviestLoad(const AssignmentProblem& problem,
                     std::span<const int32_t> owners);

}  // namespace muonshard

#endif  // OPTIMIZER_ASSIGNMENT_PROBLEM_H_
