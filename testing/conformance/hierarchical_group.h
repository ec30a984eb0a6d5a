// Hierarchies over hosts that a test pretends.

#ifndef TESTING_CONFORMANCE_HIERARCHICAL_GROUP_H_
#define TESTING_CONFORMANCE_HIERARCHICAL_GROUP_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "collectives/collective.h"
#include "collectives/plugin.h"
#include "testing/rank_harness.h"

namespace muonshard::testing {

// A hierarchy over `whole`, a group of all ranks of the run, of which each
// `lanes` in a row are said to share a host. `plugin` is that of the host
// level, `lane_plugin` that of the lane level. A collective call.
absl::StatusOr<std::unique_ptr<Collective>> NewHierarchy(
    RankContext& context, std::unique_ptr<Collective> whole, int32_t lanes,
    Plugin& plugin, Plugin& lane_plugin);

}  // namespace muonshard::testing

#endif  // TESTING_CONFORMANCE_HIERARCHICAL_GROUP_H_
