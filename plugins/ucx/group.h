// A communicator with what serves it: a group as one rank has it.
//
// Threads      As plugin_abi.h says of communicators.

#ifndef PLUGINS_UCX_GROUP_H_
#define PLUGINS_UCX_GROUP_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/support/host.h"
#include "plugins/support/outcome.h"
#include "plugins/ucx/communicator.h"
#include "plugins/ucx/join.h"
#include "plugins/ucx/service.h"
#include "plugins/ucx/worker.h"

namespace muonshard::ucx {

// What an opened plugin has.
struct Opened {
  explicit Opened(const muonshard_host& table) : host(table) {}

  const plugins::Host host;
  std::shared_ptr<Context> context;
};

class Group {
 public:
  static plugins::Outcome Make(const std::shared_ptr<Opened>& opened,
                               const JoinArguments& arguments,
                               std::shared_ptr<Group>* made);

  Communicator& communicator() { return *communicator_; }
  std::shared_ptr<Communicator> shared() const { return communicator_; }
  Service& service() { return *service_; }
  // It was left, and its service has ended.
  bool IsDone();

  // A group of those ranks that give the same color, in the order of keys; null
  // for a color below 0. A collective call.
  plugins::Outcome Split(int32_t color, int32_t key,
                         const muonshard_comm_config& config,
                         std::shared_ptr<Group>* made);

  // Memory of each rank's that its neighbours read; `window` names it. A
  // collective call.
  plugins::Outcome NewMemory(uint64_t bytes, int64_t deadline_ns, void** data,
                             int32_t* window);
  plugins::Outcome FreeMemory(int32_t window);

 private:
  // Gathers `mine` of each rank into `all`, in rank order.
  plugins::Outcome Gather(const std::string& label, int64_t deadline_ns,
                          std::span<const std::byte> mine,
                          std::span<std::byte> all);

  explicit Group(std::shared_ptr<Opened> opened) : opened_(std::move(opened)) {}

  const std::shared_ptr<Opened> opened_;
  std::shared_ptr<Communicator> communicator_;
  std::unique_ptr<Service> service_;
};

struct PostRequest {
  Group* group;
  const muonshard_operation* operation;
};

// All are posted or none; `*failed` is the one at fault. `posted` has room for
// them.
plugins::Outcome Post(std::span<const PostRequest> requests,
                      std::span<std::shared_ptr<Operation>> posted,
                      uint32_t* failed);

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_GROUP_H_
