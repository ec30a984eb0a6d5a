// The objects of the host, by the names that all of loopback uses.

#ifndef PLUGINS_LOOPBACK_HOST_H_
#define PLUGINS_LOOPBACK_HOST_H_

#include "plugins/support/host.h"

namespace muonshard::loopback {

using plugins::Host;
using plugins::HostCondition;
using plugins::HostLock;
using plugins::HostMutex;
using plugins::kNever;

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_HOST_H_
