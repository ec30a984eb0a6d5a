#include "optimizer/owner_assignment.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "optimizer/assignment_problem.h"
#include "optimizer/longest_first.h"
#include "optimizer/multifit.h"

namespace muonshard {
namespace {

absl::Status CheckArguments(const std::vector<OwnedItem>& items,
                            const std::vector<OwnerRank>& ranks,
                            int64_t memory_bytes_max) {
  if (ranks.empty()) {
    return absl::InvalidArgumentError("ranks: want at least one, got none");
  }
  if (memory_bytes_max < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory_bytes_max: want >= 0, got ", memory_bytes_max));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].cost >= 0 && items[i].memory_bytes >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "item ", i, " \"", items[i].name, "\": want cost and memory >= 0, got ",
        items[i].cost, " and ", items[i].memory_bytes));
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].load >= 0 && ranks[i].memory_bytes >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("group rank ", i, ": want load and memory >= 0, got ",
                     ranks[i].load, " and ", ranks[i].memory_bytes));
  }
  return absl::OkStatus();
}

// Where costs decide the order, an item may find no place under a tight cap
// although there is one. Here memory alone decides.
absl::StatusOr<std::vector<int32_t>> LargestMemoryFirst(
    const AssignmentProblem& problem) {
  std::vector<OwnedItem> items = problem.items;
  for (OwnedItem& item : items) item.cost = item.memory_bytes;
  std::vector<OwnerRank> ranks = problem.ranks;
  for (OwnerRank& rank : ranks) rank.load = rank.memory_bytes;
  return LongestFirst(
      AssignmentProblem(items, ranks, problem.memory_bytes_max));
}

// Whether hosts before lanes differs from the lightest rank first: neither
// with one host nor with a host per rank.
bool HostsMatter(const std::vector<OwnerRank>& ranks) {
  std::set<int32_t> hosts;
  for (const OwnerRank& rank : ranks) hosts.insert(rank.host);
  return hosts.size() > 1 && hosts.size() < ranks.size();
}

// Whether counting shows that some rank is above `capacity`. `costs` are
// positive and sorted downwards.
bool CountingRefutes(const std::vector<int64_t>& costs, int64_t rank_count,
                     int64_t capacity) {
  // How many costs are above `bound`.
  const auto count_above = [&costs](int64_t bound) {
    return std::lower_bound(costs.begin(), costs.end(), bound,
                            std::greater<int64_t>()) -
           costs.begin();
  };
  for (size_t i = 0; i < costs.size(); ++i) {
    const int64_t least = costs[i];
    if (i + 1 < costs.size() && costs[i + 1] == least) continue;
    const int64_t counted = static_cast<int64_t>(i) + 1;
    const int64_t alone =
        std::min<int64_t>(counted, count_above(capacity - least));
    const int64_t per_rank = capacity / least;
    if (alone + (counted - alone + per_rank - 1) / per_rank > rank_count) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> AssignOwners(
    const std::vector<OwnedItem>& items, const std::vector<OwnerRank>& ranks,
    int64_t memory_bytes_max) {
  if (absl::Status s = CheckArguments(items, ranks, memory_bytes_max);
      !s.ok()) {
    return s;
  }
  const AssignmentProblem problem(items, ranks, memory_bytes_max);
  absl::StatusOr<std::vector<int32_t>> best = LongestFirst(problem);
  if (!best.ok()) best = LargestMemoryFirst(problem);
  if (!best.ok()) return best.status();

  std::optional<std::vector<int32_t>> fitted =
      Multifit(problem, HeaviestLoad(problem, *best));
  if (fitted.has_value()) best = *std::move(fitted);

  if (HostsMatter(ranks)) {
    absl::StatusOr<std::vector<int32_t>> by_host = LongestFirstByHost(problem);
    const int64_t heaviest = HeaviestLoad(problem, *best);
    if (by_host.ok() &&
        HeaviestLoad(problem, *by_host) <= heaviest + heaviest / 50) {
      return by_host;
    }
  }
  return best;
}

int64_t HeaviestLoadLowerBound(const std::vector<int64_t>& costs,
                               int32_t rank_count) {
  if (costs.empty()) return 0;
  std::vector<int64_t> sorted = costs;
  std::sort(sorted.begin(), sorted.end(), std::greater<int64_t>());
  int64_t sum = 0;
  for (const int64_t cost : sorted) sum += cost;
  int64_t bound = std::max(sorted.front(), (sum + rank_count - 1) / rank_count);
  // Of the first N + 1 items, two are on one rank.
  const size_t n = static_cast<size_t>(rank_count);
  if (sorted.size() > n) bound = std::max(bound, sorted[n - 1] + sorted[n]);
  return bound;
}

int64_t WholeItemsLowerBound(const std::vector<int64_t>& costs,
                             int32_t rank_count) {
  std::vector<int64_t> sorted = costs;
  std::sort(sorted.begin(), sorted.end(), std::greater<int64_t>());
  while (!sorted.empty() && sorted.back() <= 0) sorted.pop_back();
  int64_t low = HeaviestLoadLowerBound(sorted, rank_count);
  if (sorted.empty()) return low;
  // With floor(n / N) + 1 of the longest on one rank, nothing is refuted.
  const int64_t count = static_cast<int64_t>(sorted.size());
  int64_t high = std::max(low, (count / rank_count + 1) * sorted.front());
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (CountingRefutes(sorted, rank_count, middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace muonshard
