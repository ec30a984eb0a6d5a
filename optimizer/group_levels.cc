#include "optimizer/group_levels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "optimizer/shard_groups.h"

namespace muonshard {
namespace {

constexpr char kRefused[] = "option plan.hierarchy: want auto or off, got on: ";

std::string GroupsText(const BucketClass& bucket_class, bool of_replicas) {
  if (!of_replicas) {
    return absl::StrCat("shard groups over ",
                        absl::StrJoin(bucket_class.shard_axes, ","));
  }
  std::vector<std::string> axes = bucket_class.replicate_axes;
  axes.insert(axes.end(), bucket_class.partial_axes.begin(),
              bucket_class.partial_axes.end());
  return absl::StrCat("replica groups over ", absl::StrJoin(axes, ","));
}

std::string RanksText(const GroupLevels& levels) {
  return absl::StrCat(
      levels.lanes, levels.lanes == 1 ? " rank" : " ranks", " on ",
      levels.hosts == 1 ? "one host" : "each of ",
      levels.hosts == 1 ? std::string() : absl::StrCat(levels.hosts, " hosts"));
}

GroupLevels Flat(size_t size) {
  return {.hosts = 1, .lanes = static_cast<int32_t>(size)};
}

// Whether two groups of the same order fold the same way.
bool FoldAlike(const GroupLevels& a, const GroupLevels& b) {
  return a.hierarchical() || b.hierarchical() ? a == b : true;
}

bool DuplicatesHaveLikeLevels(const BucketClass& bucket_class, const Mesh& mesh,
                              const HostMap& hosts, Hierarchy hierarchy,
                              const RankGroups& groups) {
  for (const std::vector<Rank>& group : groups.groups) {
    const std::vector<Rank>& first =
        groups.group_of(FirstDuplicate(bucket_class, mesh, group.front()));
    if (!FoldAlike(LevelsOf(bucket_class, group, hosts, hierarchy),
                   LevelsOf(bucket_class, first, hosts, hierarchy))) {
      return false;
    }
  }
  return true;
}

// Finds the spreads of the groups of one kind of one class.
class Spreader {
 public:
  Spreader(const BucketClass& bucket_class, int32_t index, bool of_replicas,
           const HostMap& hosts, Hierarchy hierarchy)
      : class_(bucket_class),
        index_(index),
        of_replicas_(of_replicas),
        hosts_(hosts),
        hierarchy_(hierarchy) {}

  absl::Status Add(const std::vector<Rank>& group) {
    if (group.size() == 1) return absl::OkStatus();
    if (hierarchy_ == Hierarchy::kOff) {
      Count(Flat(group.size()), "hierarchy is off");
      return absl::OkStatus();
    }
    const absl::StatusOr<HostLaneGrid> grid = hosts_.Factor(group);
    if (!grid.ok()) {
      if (hierarchy_ == Hierarchy::kOn) return Refused(grid.status().message());
      Count(Flat(group.size()), grid.status().message());
      return absl::OkStatus();
    }
    const GroupLevels levels = {.hosts = grid->hosts, .lanes = grid->lanes};
    if (!levels.hierarchical()) {
      Count(levels, RanksText(levels));
    } else if (!class_.in_rank_order) {
      Count(levels, "");
    } else if (hierarchy_ == Hierarchy::kOn) {
      return Refused(UnlikeText());
    } else {
      Count(Flat(group.size()), UnlikeText());
    }
    return absl::OkStatus();
  }

  std::vector<GroupSpread> Take() { return std::move(spreads_); }

 private:
  absl::Status Refused(absl::string_view reason) const {
    return absl::FailedPreconditionError(
        absl::StrCat(kRefused, GroupsText(class_, of_replicas_), ": ", reason));
  }

  std::string UnlikeText() const {
    return absl::StrCat(
        "duplicates over ", absl::StrJoin(class_.duplicate_axes, ","),
        " lie unlike on their hosts, and would get unlike bits");
  }

  // Of groups that are flat for one reason, the words are those of the first.
  void Count(const GroupLevels& levels, absl::string_view flat_because) {
    for (GroupSpread& spread : spreads_) {
      if (spread.levels == levels &&
          spread.flat_because.empty() == flat_because.empty()) {
        ++spread.group_count;
        return;
      }
    }
    spreads_.push_back({.bucket_class = index_,
                        .of_replicas = of_replicas_,
                        .group_count = 1,
                        .levels = levels,
                        .flat_because = std::string(flat_because)});
  }

  const BucketClass& class_;
  const int32_t index_;
  const bool of_replicas_;
  const HostMap& hosts_;
  const Hierarchy hierarchy_;
  std::vector<GroupSpread> spreads_;
};

absl::Status CheckThatAnyIsHierarchical(
    const std::vector<BucketClass>& classes,
    const std::vector<GroupSpread>& spreads) {
  std::vector<std::string> found;
  for (const GroupSpread& spread : spreads) {
    if (spread.levels.hierarchical()) return absl::OkStatus();
    found.push_back(absl::StrCat(
        GroupsText(classes[static_cast<size_t>(spread.bucket_class)],
                   spread.of_replicas),
        " have ", spread.flat_because));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return absl::FailedPreconditionError(absl::StrCat(
      kRefused, "no group has two ranks or more on each of two hosts or more",
      found.empty() ? "" : "; ", absl::StrJoin(found, ", ")));
}

}  // namespace

GroupLevels LevelsOf(const BucketClass& bucket_class,
                     std::span<const Rank> group, const HostMap& hosts,
                     Hierarchy hierarchy) {
  if (hierarchy == Hierarchy::kOff) return Flat(group.size());
  const absl::StatusOr<HostLaneGrid> grid = hosts.Factor(group);
  if (!grid.ok()) return Flat(group.size());
  const GroupLevels levels = {.hosts = grid->hosts, .lanes = grid->lanes};
  return levels.hierarchical() && bucket_class.in_rank_order
             ? Flat(group.size())
             : levels;
}

bool DuplicatesReduceAlike(const BucketClass& bucket_class, const Mesh& mesh,
                           const HostMap& hosts, Hierarchy hierarchy) {
  if (bucket_class.duplicate_axes.empty()) return true;
  for (const RankGroups& groups :
       {ShardGroupsOf(bucket_class, mesh, hosts),
        ReplicaGroupsOf(bucket_class, mesh, hosts)}) {
    if (!DuplicatesStandAlike(bucket_class, mesh, groups) ||
        !DuplicatesHaveLikeLevels(bucket_class, mesh, hosts, hierarchy,
                                  groups)) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<std::vector<GroupSpread>> SpreadGroups(
    const std::vector<BucketClass>& classes, const Mesh& mesh,
    const HostMap& hosts, Hierarchy hierarchy) {
  std::vector<GroupSpread> spreads;
  for (size_t c = 0; c < classes.size(); ++c) {
    for (const bool of_replicas : {false, true}) {
      Spreader spreader(classes[c], static_cast<int32_t>(c), of_replicas, hosts,
                        hierarchy);
      const RankGroups groups = of_replicas
                                    ? ReplicaGroupsOf(classes[c], mesh, hosts)
                                    : ShardGroupsOf(classes[c], mesh, hosts);
      for (const std::vector<Rank>& group : groups.groups) {
        if (absl::Status s = spreader.Add(group); !s.ok()) return s;
      }
      for (GroupSpread& spread : spreader.Take()) {
        spreads.push_back(std::move(spread));
      }
    }
  }
  if (hierarchy == Hierarchy::kOn) {
    if (absl::Status s = CheckThatAnyIsHierarchical(classes, spreads);
        !s.ok()) {
      return s;
    }
  }
  return spreads;
}

}  // namespace muonshard
