#include "optimizer/group_set.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace muonshard {
namespace {

// Groups that one split makes, for all classes that travel in them.
struct GroupKind {
  std::string name;
  bool of_replicas = false;
  std::vector<int32_t> classes;
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
    }
  }
  return kinds;
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

}  // namespace

absl::StatusOr<GroupSet> GroupSet::Create(const Plan& plan, Collective& world,
                                          const LevelWorlds&,
                                          absl::Time deadline) {
  GroupSet set;
  set.shards_.resize(plan.classes.size(), nullptr);
  set.replicas_.resize(plan.classes.size(), nullptr);
  for (const GroupKind& kind : KindsOf(plan)) {
    const auto living = std::find_if(
        kind.classes.begin(), kind.classes.end(), [&](int32_t bucket_class) {
          return plan.LivesOn(bucket_class, world.rank());
        });
    std::vector<Rank> members;
    if (living != kind.classes.end()) {
      members = kind.of_replicas ? plan.ReplicasOf(*living, world.rank())
                                 : plan.GroupOf(*living, world.rank());
    }
    absl::StatusOr<std::unique_ptr<Collective>> group =
        SplitOff(members, kind.name, world, deadline);
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
