// A Collective over one communicator of one plugin: a call is one launch.

#ifndef COLLECTIVES_FLAT_COLLECTIVE_H_
#define COLLECTIVES_FLAT_COLLECTIVE_H_

#include <memory>

#include "collectives/capabilities.h"
#include "collectives/collective.h"
#include "collectives/launch.h"

namespace muonshard {

std::unique_ptr<Collective> NewFlatCollective(
    std::shared_ptr<PluginCommunicator> communicator,
    const Capabilities& capabilities);

}  // namespace muonshard

#endif  // COLLECTIVES_FLAT_COLLECTIVE_H_
