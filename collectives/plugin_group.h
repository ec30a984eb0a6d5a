// Makes a group of ranks with an opened plugin.

#ifndef COLLECTIVES_PLUGIN_GROUP_H_
#define COLLECTIVES_PLUGIN_GROUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "collectives/collective.h"
#include "collectives/plugin.h"
#include "collectives/plugin_instance.h"

namespace muonshard {

// As Plugin::NewGroup. What the group promises is what the plugin promises on
// every one of its ranks.
absl::StatusOr<std::unique_ptr<Collective>> NewPluginGroup(
    std::shared_ptr<const PluginInstance> plugin, const GroupConfig& config);

}  // namespace muonshard

#endif  // COLLECTIVES_PLUGIN_GROUP_H_
