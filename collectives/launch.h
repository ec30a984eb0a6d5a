// One operation on one plugin's communicator: what a Collective is lowered to.

#ifndef COLLECTIVES_LAUNCH_H_
#define COLLECTIVES_LAUNCH_H_

#include <memory>

#include "collectives/operation.h"

namespace muonshard {

// A communicator of a plugin, kept alive by whoever may still post to it;
// defined in plugin_communicator.h.
class PluginCommunicator;

struct Launch {
  std::shared_ptr<PluginCommunicator> communicator;
  Operation operation;
};

}  // namespace muonshard

#endif  // COLLECTIVES_LAUNCH_H_
