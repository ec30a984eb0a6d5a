// What a Collective is lowered to: operations on plugins' communicators.

#ifndef COLLECTIVES_LAUNCH_H_
#define COLLECTIVES_LAUNCH_H_

#include <memory>
#include <vector>

#include "collectives/operation.h"

namespace muonshard {

// A communicator of a plugin, kept alive by whoever may still post to it;
// defined in plugin_communicator.h.
class PluginCommunicator;

struct Launch {
  std::shared_ptr<PluginCommunicator> communicator;
  Operation operation;
};

// Launches that do not wait for one another and are posted together. May be
// empty: there is nothing to do on this rank.
using LaunchLevel = std::vector<Launch>;

}  // namespace muonshard

#endif  // COLLECTIVES_LAUNCH_H_
