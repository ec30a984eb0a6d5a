// Posting operations, one or several at once.

#ifndef PLUGINS_LOOPBACK_POST_H_
#define PLUGINS_LOOPBACK_POST_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/loopback/communicator.h"
#include "plugins/loopback/outcome.h"
#include "plugins/loopback/work.h"

namespace muonshard::loopback {

struct PostRequest {
  std::shared_ptr<Communicator> communicator;
  const muonshard_operation* operation;
};

// Checks all requests, then starts all; `works` has one work for each. After an
// error nothing was started, and `failed` is the index of the request at
// fault.
Outcome Post(std::span<const PostRequest> requests,
             std::vector<std::shared_ptr<Work>>* works, uint32_t* failed);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_POST_H_
