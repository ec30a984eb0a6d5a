#include "topology/host_map.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

size_t Index(Rank rank) { return static_cast<size_t>(ToInt(rank)); }

absl::Status CheckGroup(std::span<const Rank> sorted_group, int32_t size) {
  if (sorted_group.empty()) {
    return absl::InvalidArgumentError(
        "an empty group does not factor into hosts and lanes");
  }
  for (const Rank rank : {sorted_group.front(), sorted_group.back()}) {
    if (ToInt(rank) < 0 || ToInt(rank) >= size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", ToInt(rank), " of the group: want a rank below ", size,
          ", the size of the host map"));
    }
  }
  const auto twice =
      std::adjacent_find(sorted_group.begin(), sorted_group.end());
  if (twice != sorted_group.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", ToInt(*twice), " is in the group twice"));
  }
  return absl::OkStatus();
}

}  // namespace

HostMap HostMap::FromHostIds(const std::vector<std::string>& host_ids) {
  HostMap map;
  std::unordered_map<std::string, int32_t> host_of_id;
  for (const std::string& id : host_ids) {
    const auto [it, is_new] = host_of_id.emplace(id, map.host_count());
    if (is_new) {
      map.host_ids_.push_back(id);
      map.lanes_.emplace_back();
    }
    std::vector<Rank>& lanes = map.lanes_[static_cast<size_t>(it->second)];
    const Rank rank = Rank(map.size());
    map.host_of_rank_.push_back(it->second);
    map.lane_of_rank_.push_back(static_cast<int32_t>(lanes.size()));
    lanes.push_back(rank);
  }
  return map;
}

int32_t HostMap::host(Rank rank) const { return host_of_rank_[Index(rank)]; }

int32_t HostMap::lane(Rank rank) const { return lane_of_rank_[Index(rank)]; }

const std::string& HostMap::host_id(int32_t host) const {
  return host_ids_[static_cast<size_t>(host)];
}

std::span<const Rank> HostMap::lanes_of(int32_t host) const {
  return lanes_[static_cast<size_t>(host)];
}

absl::StatusOr<HostLaneGrid> HostMap::Factor(
    std::span<const Rank> group) const {
  std::vector<Rank> ranks(group.begin(), group.end());
  std::sort(ranks.begin(), ranks.end());
  if (absl::Status s = CheckGroup(ranks, size()); !s.ok()) return s;

  // Stable, so that the members of one host stay in rank order.
  std::stable_sort(ranks.begin(), ranks.end(),
                   [this](Rank a, Rank b) { return host(a) < host(b); });
  const int32_t first_host = host(ranks.front());
  HostLaneGrid grid;
  auto host_begin = ranks.begin();
  while (host_begin != ranks.end()) {
    const int32_t this_host = host(*host_begin);
    const auto host_end = std::find_if(
        host_begin, ranks.end(),
        [this, this_host](Rank rank) { return host(rank) != this_host; });
    const int32_t members = static_cast<int32_t>(host_end - host_begin);
    if (grid.hosts == 0) grid.lanes = members;
    if (members != grid.lanes) {
      return absl::FailedPreconditionError(absl::StrCat(
          "a group of ", ranks.size(),
          " ranks does not factor into hosts and lanes: host \"",
          host_id(first_host), "\" has ", grid.lanes,
          grid.lanes == 1 ? " rank" : " ranks", " of the group, host \"",
          host_id(this_host), "\" has ", members));
    }
    ++grid.hosts;
    host_begin = host_end;
  }
  grid.ranks = std::move(ranks);
  return grid;
}

}  // namespace muonshard
