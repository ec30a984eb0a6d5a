#include "optimizer/group_set.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muonshard {
namespace {

// Makes the group of `members`, which holds the own rank, unless `name` exists.
absl::Status AddGroup(const std::string& name, const std::vector<Rank>& members,
                      Collective& world, absl::Time deadline,
                      std::map<std::string, std::unique_ptr<Collective>>& out,
                      Collective*& group) {
  const auto found = out.find(name);
  if (found != out.end()) {
    group = found->second.get();
    return absl::OkStatus();
  }
  // Groups over the same axes are disjoint, so the least member names one.
  const Rank color = *std::min_element(members.begin(), members.end());
  const auto key =
      std::find(members.begin(), members.end(), world.rank()) - members.begin();
  absl::StatusOr<std::unique_ptr<Collective>> made =
      world.Split(ToInt(color), static_cast<int32_t>(key), name, deadline);
  if (!made.ok()) return made.status();
  group = made->get();
  out.emplace(name, *std::move(made));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GroupSet> GroupSet::Create(const Plan& plan, Collective& world,
                                          absl::Time deadline) {
  GroupSet set;
  for (size_t c = 0; c < plan.classes.size(); ++c) {
    const BucketClass& bucket_class = plan.classes[c];
    const auto index = static_cast<int32_t>(c);
    const std::string shards =
        absl::StrCat("shards:", absl::StrJoin(bucket_class.shard_axes, ","));
    // Who holds the same segment follows from both sets of axes.
    const std::string replicas = absl::StrCat(
        "replicas:", absl::StrJoin(bucket_class.replicate_axes, ","), "/",
        shards);
    Collective* group = nullptr;
    absl::Status s = AddGroup(shards, plan.GroupOf(index, world.rank()), world,
                              deadline, set.by_axes_, group);
    if (!s.ok()) return s;
    set.shards_.push_back(group);
    s = AddGroup(replicas, plan.ReplicasOf(index, world.rank()), world,
                 deadline, set.by_axes_, group);
    if (!s.ok()) return s;
    set.replicas_.push_back(group);
  }
  return set;
}

absl::StatusOr<uint64_t> GroupSet::BytesSent() const {
  uint64_t sum = 0;
  for (const auto& [name, group] : by_axes_) {
    absl::StatusOr<CollectiveCounters> counters = group->Counters();
    if (!counters.ok()) return counters.status();
    sum += counters->bytes_sent();
  }
  return sum;
}

void GroupSet::Abort(const absl::Status& reason) const {
  for (const auto& [name, group] : by_axes_) group->Abort(reason);
}

}  // namespace muonshard
