// Learns who runs on which host, by exchanging host identity.

#ifndef COLLECTIVES_HOST_EXCHANGE_H_
#define COLLECTIVES_HOST_EXCHANGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "topology/host_map.h"

namespace muonshard {

// An identity of the machine that this process runs on, equal for all its
// processes: host name and boot id.
std::string LocalHostId();

// Gathers the `host_id` of every rank of `world`. A collective call. Ids are at
// most 254 bytes; a longer one on any rank is kInvalidArgument on all, and
// names the rank.
absl::StatusOr<HostMap> ExchangeHosts(Collective& world,
                                      absl::string_view host_id,
                                      absl::Time deadline);

}  // namespace muonshard

#endif  // COLLECTIVES_HOST_EXCHANGE_H_
