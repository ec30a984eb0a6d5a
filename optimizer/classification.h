// Which parameters can share a bucket, and which ranks share its segments.

#ifndef OPTIMIZER_CLASSIFICATION_H_
#define OPTIMIZER_CLASSIFICATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "optimizer/bucket.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/shard_groups.h"
#include "topology/host_map.h"
#include "topology/mesh.h"

namespace muonshard {

// The shard groups of classes, and who is on one host in them.
struct ShardGroups {
  int32_t group_size = 1;
  RankGroups ranks;
  std::vector<int32_t> hosts;  // See HostsOfPlaces.
};

struct Classification {
  const ShardGroups& GroupsOf(int32_t bucket_class) const {
    const size_t c = static_cast<size_t>(bucket_class);
    return groups[static_cast<size_t>(groups_of_class[c])];
  }

  // In order of their first parameters.
  std::vector<BucketClass> classes;
  std::vector<int32_t> class_of_parameter;
  // Classes with the same shard axes that live on the same ranks, in the same
  // order, have the same groups.
  std::vector<ShardGroups> groups;
  std::vector<int32_t> groups_of_class;  // Index into `groups`.
};

// `specs` are valid, and `hosts` has the ranks of `mesh`.
Classification Classify(const std::vector<ParameterSpec>& specs,
                        const Mesh& mesh, const HostMap& hosts,
                        Hierarchy hierarchy);

}  // namespace muonshard

#endif  // OPTIMIZER_CLASSIFICATION_H_
