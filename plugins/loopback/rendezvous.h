// How the ranks of a new group come together through the store.
//
// Errors       MUONSHARD_E_TIMEOUT names the ranks that did not come. Every
//              rank that came gets the same error. A group that was given up
//              is not joined later: its name is spent.
//              MUONSHARD_E_UNSUPPORTED, a rank is in another process, copy of
//              the plugin or runtime: on every rank that has come, at once.

#ifndef PLUGINS_LOOPBACK_RENDEZVOUS_H_
#define PLUGINS_LOOPBACK_RENDEZVOUS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "collectives/plugin_abi.h"
#include "plugins/loopback/communicator.h"
#include "plugins/loopback/domain.h"
#include "plugins/loopback/laboratory.h"
#include "plugins/loopback/options.h"
#include "plugins/loopback/outcome.h"

namespace muonshard::loopback {

class NetworkClock;

// Returns when all ranks of `config` have come. `network` is null where data is
// moved.
Outcome JoinGroup(const std::shared_ptr<Domain>& domain,
                  const std::shared_ptr<Laboratory>& laboratory,
                  const muonshard_comm_config& config, const Options& options,
                  const std::shared_ptr<NetworkClock>& network,
                  std::shared_ptr<Communicator>* made);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_RENDEZVOUS_H_
