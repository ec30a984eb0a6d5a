// The small case over two replicas of a shard group of two hosts of two lanes,
// with hierarchy: reductions and gathers have a host and a lane level.

#ifndef TESTING_TWO_LEVEL_CASE_H_
#define TESTING_TWO_LEVEL_CASE_H_

#include "testing/sharded_case.h"
#include "testing/small_case.h"

namespace muonshard::testing {

inline ShardedCase TwoLevelCase() {
  ShardedCase sharded = SmallCase();
  sharded.mesh = "replicas=2,data=4";
  for (ParameterSpec& spec : sharded.specs) {
    spec.roles["replicas"] = AxisRole::kReplicate;
  }
  sharded.hosts = {"a", "a", "b", "b", "c", "c", "d", "d"};
  sharded.options.plan.hierarchy = Hierarchy::kOn;
  sharded.gradients = GradientValues::kExactSums;
  return sharded;
}

}  // namespace muonshard::testing

#endif  // TESTING_TWO_LEVEL_CASE_H_
