// The groups that gradients travel in and how each is spread over hosts, for
// people and programs.

#ifndef TOOLS_TRAINER_GROUP_SUMMARY_H_
#define TOOLS_TRAINER_GROUP_SUMMARY_H_

#include <string>
#include <vector>

#include "optimizer/plan.h"

namespace muonshard {

// Groups alike in all of this.
struct GroupSummary {
  // Names with + between, in mesh order.
  std::string axes;
  int32_t size = 1;    // Ranks.
  GroupLevels levels;  // 1 x 1 if they are flat.

  bool operator==(const GroupSummary&) const = default;
};

// Of several ranks each, in the order in which classes of buckets name them.
std::vector<GroupSummary> GroupsOf(const Plan& plan);

// "dp+ep, 8 ranks as 2 hosts x 4 lanes", "ep, 4 ranks, flat".
std::string Describe(const GroupSummary& group);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_GROUP_SUMMARY_H_
