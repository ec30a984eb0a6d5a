#include "optimizer/assignment_problem.h"

#include <algorithm>
#include <numeric>

namespace muonshard {

AssignmentProblem::AssignmentProblem(const std::vector<OwnedItem>& all_items,
                                     const std::vector<OwnerRank>& all_ranks,
                                     int64_t memory_cap)
    : items(all_items),
      ranks(all_ranks),
      memory_bytes_max(memory_cap),
      order(all_items.size()) {
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return items[a].cost > items[b].cost;
  });
}

int64_t HeaviestLoad(const AssignmentProblem& problem,
                     std::span<const int32_t> owners) {
  std::vector<int64_t> loads;
  loads.reserve(problem.ranks.size());
  for (const OwnerRank& rank : problem.ranks) loads.push_back(rank.load);
  for (size_t i = 0; i < owners.size(); ++i) {
    loads[static_cast<size_t>(owners[i])] += problem.items[i].cost;
  }
  return *std::max_element(loads.begin(), loads.end());
}

}  // namespace muonshard
