// What an operation does to the links of a network: the stages of the
// algorithm that runs it, as network.h gives them.

#ifndef PLUGINS_LOOPBACK_MODEL_ALGORITHMS_H_
#define PLUGINS_LOOPBACK_MODEL_ALGORITHMS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/loopback/call.h"
#include "plugins/loopback/model/flow.h"
#include "plugins/loopback/model/links.h"

namespace muonshard::loopback {

// `calls` are those of all ranks of a group, or a Send and its Recv, and agree;
// `ranks` are these ranks in the world. None for an operation that moves
// nothing and is no barrier.
std::vector<Stage> StagesOf(const Links& links, std::span<const int32_t> ranks,
                            std::span<const Call* const> calls);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_MODEL_ALGORITHMS_H_
