// How the ranks of a new group find each other through the store.
//
// Keys         NAME/ucx/RANK has a card of each rank: versions, size, host,
//              process and address.
// Errors       MUONSHARD_E_TIMEOUT names the ranks that did not come.
//              MUONSHARD_E_MISMATCH: a rank has another size or build.
//              MUONSHARD_E_SYSTEM: UCX has no way to a rank.

#ifndef PLUGINS_UCX_JOIN_H_
#define PLUGINS_UCX_JOIN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/support/outcome.h"
#include "plugins/ucx/communicator.h"
#include "plugins/ucx/service.h"
#include "plugins/ucx/worker.h"

namespace muonshard::ucx {

struct JoinArguments {
  const muonshard_store* store = nullptr;
  Identity identity;
  int64_t deadline_ns = 0;
};

// Gives `communicator` a worker that is connected to all ranks; returns when
// all have come. `processes`: of the peers that can be watched from here.
plugins::Outcome JoinGroup(const std::shared_ptr<Context>& context,
                           const JoinArguments& arguments,
                           Communicator* communicator,
                           std::vector<PeerProcess>* processes);

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_JOIN_H_
