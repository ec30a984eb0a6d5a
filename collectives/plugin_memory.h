// Memory that a plugin has made, with the communicator it belongs to.

#ifndef COLLECTIVES_PLUGIN_MEMORY_H_
#define COLLECTIVES_PLUGIN_MEMORY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/collective_memory.h"
#include "collectives/plugin_communicator.h"

namespace muonshard {

// A collective call, as Collective::NewMemory.
absl::StatusOr<std::unique_ptr<CollectiveMemory>> NewPluginMemory(
    std::shared_ptr<PluginCommunicator> communicator, int64_t bytes,
    absl::Time deadline);

}  // namespace muonshard

#endif  // COLLECTIVES_PLUGIN_MEMORY_H_
