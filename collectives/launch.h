// What a Collective lowers a call to: operations on plugins' communicators.

#ifndef COLLECTIVES_LAUNCH_H_
#define COLLECTIVES_LAUNCH_H_

#include <memory>
#include <vector>

#include "collectives/call_order.h"
#include "collectives/operation.h"
#include "collectives/runtime/event.h"

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

struct LoweredCall {
  // In order; as many on every rank. Each is ready when the one before has
  // ended.
  std::vector<LaunchLevel> levels = {};
  // What the first launches wait for, besides their own `ready`.
  std::vector<Event> ready = {};
  // Memory that the launches use, kept until the call has ended.
  std::vector<std::shared_ptr<const void>> scratch = {};
  // Null where one communicator keeps the order.
  std::shared_ptr<CallOrder> order = nullptr;
  CallFootprint footprint = {};
};

}  // namespace muonshard

#endif  // COLLECTIVES_LAUNCH_H_
