#include "optimizer/multifit.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <unordered_map>
#include <utility>

namespace muonshard {
namespace {

constexpr int kCapacities = 16;

// The rooms of bins, as a tree of maxima: the first bin with enough room in
// O(log bins).
class FirstFit {
 public:
  explicit FirstFit(const std::vector<int64_t>& rooms)
      : leaves_(std::bit_ceil(rooms.size())),
        largest_(2 * leaves_, std::numeric_limits<int64_t>::min()) {
    std::copy(rooms.begin(), rooms.end(),
              largest_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (size_t node = leaves_ - 1; node >= 1; --node) Update(node);
  }

  // The first bin from `first` on that has `room`.
  std::optional<size_t> Find(int64_t room, size_t first) const {
    size_t node = leaves_ + first;
    if (node >= largest_.size()) return std::nullopt;
    while (largest_[node] < room) {
      // Up while this is a right child, then to the subtree on the right.
      while (node % 2 == 1) node /= 2;
      if (node == 0) return std::nullopt;
      ++node;
    }
    while (node < leaves_) {
      node *= 2;
      if (largest_[node] < room) ++node;
    }
    return node - leaves_;
  }

  void Take(size_t bin, int64_t room) {
    size_t node = leaves_ + bin;
    largest_[node] -= room;
    while (node > 1) {
      node /= 2;
      Update(node);
    }
  }

 private:
  void Update(size_t node) {
    largest_[node] = std::max(largest_[2 * node], largest_[2 * node + 1]);
  }

  size_t leaves_;
  std::vector<int64_t> largest_;  // Of the children 2i and 2i + 1; root at 1.
};

std::optional<std::vector<int32_t>> FirstFitLongestFirst(
    const AssignmentProblem& problem, int64_t capacity) {
  std::vector<int64_t> rooms;
  std::vector<int64_t> memory_bytes;
  for (const OwnerRank& rank : problem.ranks) {
    rooms.push_back(capacity - rank.load);
    memory_bytes.push_back(rank.memory_bytes);
  }
  FirstFit bins(rooms);
  std::vector<int32_t> owners(problem.items.size());
  for (const size_t i : problem.order) {
    const OwnedItem& item = problem.items[i];
    std::optional<size_t> rank = bins.Find(item.cost, 0);
    while (rank.has_value() && !problem.HasRoom(memory_bytes[*rank], item)) {
      rank = bins.Find(item.cost, *rank + 1);
    }
    if (!rank.has_value()) return std::nullopt;
    bins.Take(*rank, item.cost);
    memory_bytes[*rank] += item.memory_bytes;
    owners[i] = static_cast<int32_t>(*rank);
  }
  return owners;
}

// Loads and memory stay what they are.
void SpreadAlikeItems(const AssignmentProblem& problem,
                      std::vector<int32_t>& owners) {
  const auto end = problem.order.end();
  for (auto begin = problem.order.begin(); begin != end;) {
    const OwnedItem& first = problem.items[*begin];
    const auto alike_end = std::find_if(begin, end, [&](size_t i) {
      return problem.items[i].cost != first.cost ||
             problem.items[i].memory_bytes != first.memory_bytes;
    });
    std::unordered_map<int32_t, int32_t> next_round;
    std::vector<std::pair<int32_t, int32_t>> deals;  // Round, rank.
    for (auto it = begin; it != alike_end; ++it) {
      const int32_t rank = owners[*it];
      deals.emplace_back(next_round[rank]++, rank);
    }
    std::sort(deals.begin(), deals.end());
    for (const auto& [round, rank] : deals) owners[*begin++] = rank;
  }
}

// No heaviest load is below this.
int64_t LeastCapacity(const AssignmentProblem& problem) {
  int64_t sum = 0;
  int64_t lightest = problem.ranks.front().load;
  int64_t heaviest = 0;
  for (const OwnerRank& rank : problem.ranks) {
    sum += rank.load;
    lightest = std::min(lightest, rank.load);
    heaviest = std::max(heaviest, rank.load);
  }
  int64_t longest = 0;
  for (const OwnedItem& item : problem.items) {
    sum += item.cost;
    longest = std::max(longest, item.cost);
  }
  const int64_t mean = sum / static_cast<int64_t>(problem.ranks.size());
  return std::max({mean, heaviest, lightest + longest});
}

}  // namespace

std::optional<std::vector<int32_t>> Multifit(const AssignmentProblem& problem,
                                             int64_t load_limit) {
  int64_t low = LeastCapacity(problem);
  int64_t high = load_limit;
  std::optional<std::vector<int32_t>> best;
  for (int i = 0; i < kCapacities && low < high; ++i) {
    const int64_t capacity = low + (high - low) / 2;
    std::optional<std::vector<int32_t>> owners =
        FirstFitLongestFirst(problem, capacity);
    if (owners.has_value()) {
      high = capacity;
      best = std::move(owners);
    } else {
      low = capacity + 1;
    }
  }
  if (best.has_value()) SpreadAlikeItems(problem, *best);
  return best;
}

}  // namespace muonshard
