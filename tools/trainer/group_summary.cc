#include "tools/trainer/group_summary.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

void AddOnce(GroupSummary group, std::vector<GroupSummary>& groups) {
  if (group.size == 1) return;
  if (!group.levels.hierarchical()) group.levels = {};
  if (std::find(groups.begin(), groups.end(), group) != groups.end()) return;
  groups.push_back(std::move(group));
}

}  // namespace

std::vector<GroupSummary> GroupsOf(const Plan& plan) {
  std::vector<GroupSummary> groups;
  for (size_t c = 0; c < plan.classes.size(); ++c) {
    const BucketClass& of = plan.classes[c];
    const auto index = static_cast<int32_t>(c);
    std::vector<std::string> replica_axes = of.replicate_axes;
    replica_axes.insert(replica_axes.end(), of.partial_axes.begin(),
                        of.partial_axes.end());
    for (int32_t r = 0; r < plan.mesh.size(); ++r) {
      const Rank rank{r};
      if (!plan.LivesOn(index, rank)) continue;
      AddOnce({absl::StrJoin(of.shard_axes, "+"), of.group_size,
               plan.LevelsOfGroup(index, rank)},
              groups);
      AddOnce({absl::StrJoin(replica_axes, "+"), of.replica_size,
               plan.LevelsOfReplicas(index, rank)},
              groups);
    }
  }
  return groups;
}

std::string Describe(const GroupSummary& group) {
  const std::string text = absl::StrCat(group.axes, ", ", group.size, " ranks");
  if (!group.levels.hierarchical()) return absl::StrCat(text, ", flat");
  return absl::StrCat(text, " as ", group.levels.hosts, " hosts x ",
                      group.levels.lanes, " lanes");
}

}  // namespace muonshard
