// Whole items of known cost, given to the ranks so that the heaviest rank is
// as light as can be had at once.
//
// Longest first onto the lightest rank (LPT), and MULTIFIT beside it; the
// lighter result counts, LPT on a tie. Where hosts hold several ranks, a third
// assignment is LPT with hosts before lanes: among the ranks whose load would
// stay within 2 % of the lightest, the host with the least load per rank goes
// first. It counts unless its heaviest rank is over 2 % heavier than that of
// the other two.
//
// Result     Deterministic. Ties go by item index, then by rank, such that
//            items of equal cost that follow one another go to different
//            ranks.
// Cost       O(items log ranks) for LPT, 16 times that for MULTIFIT, and
//            O(items (hosts + log ranks)) for hosts before lanes.
// Errors     kInvalidArgument    no ranks, or a negative cost, load or memory
//            kResourceExhausted  names the item that found no place, and the
//                                rank with the most memory left

#ifndef OPTIMIZER_OWNER_ASSIGNMENT_H_
#define OPTIMIZER_OWNER_ASSIGNMENT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muonshard {

struct OwnedItem {
  int64_t cost = 0;
  int64_t memory_bytes = 0;
  absl::string_view name;  // What errors call it.
};

struct OwnerRank {
  int64_t load = 0;          // Cost it carries already.
  int64_t memory_bytes = 0;  // Memory it uses already.
  int32_t host = 0;
};

// Returns the rank of each item. With `memory_bytes_max` > 0 no rank exceeds
// it.
absl::StatusOr<std::vector<int32_t>> AssignOwners(
    const std::vector<OwnedItem>& items, const std::vector<OwnerRank>& ranks,
    int64_t memory_bytes_max);

// max(sum / N, c_1, c_N + c_(N+1)) over the costs sorted downwards, rounded up:
// no assignment of whole items has a lighter heaviest rank.
int64_t HeaviestLoadLowerBound(const std::vector<int64_t>& costs,
                               int32_t rank_count);

// As above, and never lower, from counting as well: under a heaviest load C, an
// item above C - a shares its rank with no item of a or more, and a rank holds
// at most C / a of those. The least C that no a refutes.
int64_t WholeItemsLowerBound(const std::vector<int64_t>& costs,
                             int32_t rank_count);

}  // namespace muonshard

#endif  // OPTIMIZER_OWNER_ASSIGNMENT_H_
