#include "optimizer/longest_first.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

// The loads of ranks and of pools of ranks, while items are placed.
class RankPools {
 public:
  // `pool_of_rank` numbers the pools from 0 without gaps.
  RankPools(const AssignmentProblem& problem, std::vector<size_t> pool_of_rank)
      : problem_(problem),
        pool_of_rank_(std::move(pool_of_rank)),
        ranks_(problem.ranks),
        pools_(*std::max_element(pool_of_rank_.begin(), pool_of_rank_.end()) +
               1) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      Pool& pool = pools_[pool_of_rank_[rank]];
      pool.load += ranks_[rank].load;
      pool.ranks.emplace(ranks_[rank].load, rank);
    }
  }

  // The rank that `item` now belongs to, or nothing if none has room.
  std::optional<size_t> Place(const OwnedItem& item) {
    const std::optional<size_t> rank = Choose(item);
    if (!rank.has_value()) return std::nullopt;
    Pool& pool = pools_[pool_of_rank_[*rank]];
    pool.ranks.erase({ranks_[*rank].load, *rank});
    ranks_[*rank].load += item.cost;
    ranks_[*rank].memory_bytes += item.memory_bytes;
    pool.load += item.cost;
    pool.ranks.emplace(ranks_[*rank].load, *rank);
    return rank;
  }

  const std::vector<OwnerRank>& ranks() const { return ranks_; }

 private:
  struct Pool {
    int64_t load = 0;
    std::set<std::pair<int64_t, size_t>> ranks;  // By (load, rank).
  };

  // The lightest rank of one pool that has room.
  struct Candidate {
    int64_t pool_load = 0;  // Per rank.
    int64_t load = 0;
    size_t rank = 0;

    bool Before(const Candidate& other) const {
      return std::tie(pool_load, load, rank) <
             std::tie(other.pool_load, other.load, other.rank);
    }
  };

  std::optional<Candidate> CandidateOf(const Pool& pool,
                                       const OwnedItem& item) const {
    for (const auto& [load, rank] : pool.ranks) {
      if (!problem_.HasRoom(ranks_[rank].memory_bytes, item)) continue;
      const int64_t pool_size = static_cast<int64_t>(pool.ranks.size());
      return Candidate{pool.load / pool_size, load, rank};
    }
    return std::nullopt;
  }

  std::optional<size_t> Choose(const OwnedItem& item) {
    candidates_.clear();
    int64_t lightest_load = 0;
    for (const Pool& pool : pools_) {
      const std::optional<Candidate> candidate = CandidateOf(pool, item);
      if (!candidate.has_value()) continue;
      if (candidates_.empty() || candidate->load < lightest_load) {
        lightest_load = candidate->load;
      }
      candidates_.push_back(*candidate);
    }
    const int64_t lightest_with_item = lightest_load + item.cost;
    const int64_t load_max = lightest_load + lightest_with_item / 50;
    const Candidate* best = nullptr;
    for (const Candidate& candidate : candidates_) {
      if (candidate.load > load_max) continue;
      if (best == nullptr || candidate.Before(*best)) best = &candidate;
    }
    if (best == nullptr) return std::nullopt;
    return best->rank;
  }

  const AssignmentProblem& problem_;
  const std::vector<size_t> pool_of_rank_;
  std::vector<OwnerRank> ranks_;
  std::vector<Pool> pools_;
  std::vector<Candidate> candidates_;  // Scratch of `Choose`.
};

absl::Status NoPlace(const AssignmentProblem& problem, size_t item_index,
                     const std::vector<OwnerRank>& ranks) {
  const OwnedItem& item = problem.items[item_index];
  const auto roomiest = std::min_element(
      ranks.begin(), ranks.end(), [](const OwnerRank& a, const OwnerRank& b) {
        return a.memory_bytes < b.memory_bytes;
      });
  return absl::ResourceExhaustedError(absl::StrCat(
      "no rank has room for item ", item_index, " \"", item.name, "\" of ",
      item.memory_bytes, " bytes: group rank ", roomiest - ranks.begin(),
      " has the most room and already uses ", roomiest->memory_bytes, " of ",
      problem.memory_bytes_max, " bytes"));
}

absl::StatusOr<std::vector<int32_t>> LongestFirstOverPools(
    const AssignmentProblem& problem, std::vector<size_t> pool_of_rank) {
  RankPools pools(problem, std::move(pool_of_rank));
  std::vector<int32_t> owners(problem.items.size());
  for (const size_t i : problem.order) {
    const std::optional<size_t> rank = pools.Place(problem.items[i]);
    if (!rank.has_value()) return NoPlace(problem, i, pools.ranks());
    owners[i] = static_cast<int32_t>(*rank);
  }
  return owners;
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> LongestFirst(
    const AssignmentProblem& problem) {
  return LongestFirstOverPools(problem,
                               std::vector<size_t>(problem.ranks.size(), 0));
}

absl::StatusOr<std::vector<int32_t>> LongestFirstByHost(
    const AssignmentProblem& problem) {
  std::unordered_map<int32_t, size_t> pool_of_host;
  std::vector<size_t> pool_of_rank;
  pool_of_rank.reserve(problem.ranks.size());
  for (const OwnerRank& rank : problem.ranks) {
    const size_t next_pool = pool_of_host.size();
    pool_of_rank.push_back(
        pool_of_host.emplace(rank.host, next_pool).first->second);
  }
  return LongestFirstOverPools(problem, std::move(pool_of_rank));
}

}  // namespace muonshard
