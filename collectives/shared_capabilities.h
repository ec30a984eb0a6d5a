// What a plugin promises on every rank of a group.

#ifndef COLLECTIVES_SHARED_CAPABILITIES_H_
#define COLLECTIVES_SHARED_CAPABILITIES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/capabilities.h"
#include "collectives/plugin_abi.h"
#include "collectives/store.h"
#include "topology/rank.h"

namespace muonshard {

// Exchanges the promises of all ranks through `store` and keeps those that all
// make. A collective call. `group` is the group's id; it may be used again by
// a later group of the same ranks.
absl::StatusOr<Capabilities> SharedCapabilities(const muonshard_caps& caps,
                                                Store& store,
                                                absl::string_view group,
                                                Rank rank, int32_t size,
                                                absl::Time deadline);

}  // namespace muonshard

#endif  // COLLECTIVES_SHARED_CAPABILITIES_H_
