#include "testing/conformance/hierarchical_group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/hierarchical_collective.h"

namespace muonshard::testing {

absl::StatusOr<std::unique_ptr<Collective>> NewHierarchy(
    RankContext& context, std::unique_ptr<Collective> whole, int32_t lanes,
    Plugin& plugin, Plugin& lane_plugin) {
  const int32_t host = ToInt(whole->rank()) / lanes;
  const int32_t lane = ToInt(whole->rank()) % lanes;
  absl::StatusOr<std::unique_ptr<Collective>> host_level =
      plugin.NewGroup({.rank = Rank{lane},
                       .size = lanes,
                       .name = absl::StrCat(whole->name(), ".host", host),
                       .deadline = GuardDeadline(context.runtime),
                       .store = &context.store});
  if (!host_level.ok()) return host_level.status();
  absl::StatusOr<std::unique_ptr<Collective>> lane_level =
      lane_plugin.NewGroup({.rank = Rank{host},
                            .size = whole->size() / lanes,
                            .name = absl::StrCat(whole->name(), ".lane", lane),
                            .deadline = GuardDeadline(context.runtime),
                            .store = &context.store});
  if (!lane_level.ok()) return lane_level.status();
  return NewHierarchicalCollective({.whole = std::move(whole),
                                    .host_level = *std::move(host_level),
                                    .lane_level = *std::move(lane_level)});
}

}  // namespace muonshard::testing
