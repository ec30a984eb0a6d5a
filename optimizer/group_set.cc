#include "optimizer/group_set.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "collectives/hierarchical_collective.h"

namespace muonshard {
namespace {

// Groups that one split makes, for all classes that travel in them.
struct GroupKind {
  std::string name;
  bool of_replicas = false;
  bool any_is_hierarchical = false;
  std::vector<int32_t> classes;
};

// That of this rank; without members where no class of the kind lives.
struct OwnGroup {
  std::vector<Rank> members;
  GroupLevels levels;
};

// Who is in a shard group, and in which order, follows from this name.
std::string ShardsName(const BucketClass& bucket_class) {
  return absl::StrCat(
      bucket_class.in_rank_order ? "shards in rank order:" : "shards:",
      absl::StrJoin(bucket_class.shard_axes, ","));
}

// Who holds the same segment follows from the shard groups as well.
std::string ReplicasName(const BucketClass& bucket_class) {
  std::vector<std::string> axes = bucket_class.replicate_axes;
  for (const std::string& axis : bucket_class.partial_axes) {
    const auto at = bucket_class.coordinates.find(axis);
    axes.push_back(
        at == bucket_class.coordinates.end()
            ? axis
            : absl::StrCat(axis, "[", absl::StrJoin(at->second, ","), "]"));
  }
  return absl::StrCat("replicas:", absl::StrJoin(axes, ","), "/",
                      ShardsName(bucket_class));
}

// In the order in which the classes first need them: the same on all ranks.
std::vector<GroupKind> KindsOf(const Plan& plan) {
  std::vector<GroupKind> kinds;
  for (size_t c = 0; c < plan.classes.size(); ++c) {
    for (const bool of_replicas : {false, true}) {
      const std::string name = of_replicas ? ReplicasName(plan.classes[c])
                                           : ShardsName(plan.classes[c]);
      auto kind = std::find_if(
          kinds.begin(), kinds.end(),
          [&name](const GroupKind& known) { return known.name == name; });
      if (kind == kinds.end()) {
        kinds.push_back({.name = name, .of_replicas = of_replicas});
        kind = std::prev(kinds.end());
      }
      kind->classes.push_back(static_cast<int32_t>(c));
      for (const GroupSpread& spread : plan.spreads) {
        if (spread.bucket_class != static_cast<int32_t>(c)) continue;
        if (spread.of_replicas != of_replicas) continue;
        kind->any_is_hierarchical |= spread.levels.hierarchical();
      }
    }
  }
  return kinds;
}

OwnGroup OwnGroupOf(const GroupKind& kind, const Plan& plan, Rank rank) {
  for (const int32_t c : kind.classes) {
    if (!plan.LivesOn(c, rank)) continue;
    if (kind.of_replicas) {
      return {plan.ReplicasOf(c, rank), plan.LevelsOfReplicas(c, rank)};
    }
    return {plan.GroupOf(c, rank), plan.LevelsOfGroup(c, rank)};
  }
  return {};
}

// Splits off `members`, in this order, of which this rank is one; without
// members it is in no group.
absl::StatusOr<std::unique_ptr<Collective>> SplitOff(
    std::span<const Rank> members, absl::string_view name, Collective& world,
    absl::Time deadline) {
  if (members.empty()) return world.Split(-1, 0, name, deadline);
  // Groups of one split are disjoint, so the least member names one.
  const Rank color = *std::min_element(members.begin(), members.end());
  const auto key =
      std::find(members.begin(), members.end(), world.rank()) - members.begin();
  return world.Split(ToInt(color), static_cast<int32_t>(key), name, deadline);
}

// Makes `whole` hierarchical if the own group is; takes part in the splits for
// the other groups of its kind in any case.
absl::StatusOr<std::unique_ptr<Collective>> Compose(
    std::unique_ptr<Collective> whole, const OwnGroup& own,
    absl::string_view name, const LevelWorlds& worlds, absl::Time deadline) {
  std::vector<Rank> host_members;
  std::vector<Rank> lane_members;
  if (own.levels.hierarchical()) {
    const int32_t lanes = own.levels.lanes;
    const int32_t host = ToInt(whole->rank()) / lanes;
    const int32_t lane = ToInt(whole->rank()) % lanes;
    for (int32_t l = 0; l < lanes; ++l) {
      host_members.push_back(
          own.members[static_cast<size_t>(host * lanes + l)]);
    }
    for (int32_t h = 0; h < own.levels.hosts; ++h) {
      lane_members.push_back(
          own.members[static_cast<size_t>(h * lanes + lane)]);
    }
  }
  absl::StatusOr<std::unique_ptr<Collective>> host_level =
      SplitOff(host_members, absl::StrCat(name, "/host level"),
               *worlds.host_level, deadline);
  if (!host_level.ok()) return host_level.status();
  absl::StatusOr<std::unique_ptr<Collective>> lane_level =
      SplitOff(lane_members, absl::StrCat(name, "/lane level"),
               *worlds.lane_level, deadline);
  if (!lane_level.ok()) return lane_level.status();
  if (!own.levels.hierarchical()) return whole;
  return NewHierarchicalCollective({.whole = std::move(whole),
                                    .host_level = *std::move(host_level),
                                    .lane_level = *std::move(lane_level)});
}

}  // namespace

absl::StatusOr<GroupSet> GroupSet::Create(const Plan& plan, Collective& world,
                                          const LevelWorlds& levels,
                                          absl::Time deadline) {
  GroupSet set;
  set.shards_.resize(plan.classes.size(), nullptr);
  set.replicas_.resize(plan.classes.size(), nullptr);
  for (const GroupKind& kind : KindsOf(plan)) {
    const OwnGroup own = OwnGroupOf(kind, plan, world.rank());
    absl::StatusOr<std::unique_ptr<Collective>> group =
        SplitOff(own.members, kind.name, world, deadline);
    if (group.ok() && kind.any_is_hierarchical) {
      group = Compose(
          *std::move(group), own, kind.name,
          {.host_level =
               levels.host_level == nullptr ? &world : levels.host_level,
           .lane_level =
               levels.lane_level == nullptr ? &world : levels.lane_level},
          deadline);
    }
    if (!group.ok()) return group.status();
    if (*group == nullptr) continue;
    for (const int32_t c : kind.classes) {
      if (!plan.LivesOn(c, world.rank())) continue;
      (kind.of_replicas ? set.replicas_ : set.shards_)[static_cast<size_t>(c)] =
          group->get();
    }
    set.by_name_.emplace(kind.name, *std::move(group));
  }
  return set;
}

absl::StatusOr<uint64_t> GroupSet::BytesSent() const {
  uint64_t sum = 0;
  for (const auto& [name, group] : by_name_) {
    absl::StatusOr<CollectiveCounters> counters = group->Counters();
    if (!counters.ok()) return counters.status();
    sum += counters->bytes_sent();
  }
  return sum;
}

void GroupSet::Abort(const absl::Status& reason) const {
  for (const auto& [name, group] : by_name_) group->Abort(reason);
}

absl::Status CheckLevelWorlds(const Collective& world,
                              const LevelWorlds& levels) {
  for (const auto& [name, level] :
       {std::pair("host_level_world", levels.host_level),
        std::pair("lane_level_world", levels.lane_level)}) {
    if (level == nullptr) continue;
    if (&level->runtime() != &world.runtime()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "environment ", name, ": want it on the runtime of the world"));
    }
    if (level->size() == world.size() && level->rank() == world.rank()) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("environment ", name, ": want rank ", ToInt(world.rank()),
                     " of ", world.size(), " as in the world, got rank ",
                     ToInt(level->rank()), " of ", level->size()));
  }
  return absl::OkStatus();
}

}  // namespace muonshard
