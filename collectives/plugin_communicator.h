// A communicator of a loaded plugin: what a Launch is posted to.
//
// Threads      As the ABI says: calls on one object do not overlap, with the
//              exception of Abort and of what works call.
// Memory       Keeps the opened plugin. Works may outlive it: those that have
//              not ended end with kAborted. The Store of the group outlives it.
// Errors       As in collective.h; the text names group, rank, call and what
//              the plugin said.

#ifndef COLLECTIVES_PLUGIN_COMMUNICATOR_H_
#define COLLECTIVES_PLUGIN_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/capabilities.h"
#include "collectives/launch.h"
#include "collectives/operation.h"
#include "collectives/plugin_abi.h"
#include "collectives/plugin_instance.h"
#include "collectives/runtime/runtime.h"
#include "collectives/store_table.h"
#include "collectives/work.h"
#include "topology/rank.h"

namespace muonshard {

class PluginCommunicator {
 public:
  struct Config {
    Rank rank{};
    int32_t size = 1;
    // For people.
    std::string name;
    // Unique among live groups of the store.
    std::string id;
    absl::Time deadline;
    // Of the world, for reports.
    Rank program_rank{};
    std::shared_ptr<const StoreTable> store;
  };

  // Returns when all ranks have come.
  static absl::StatusOr<std::shared_ptr<PluginCommunicator>> Create(
      std::shared_ptr<const PluginInstance> plugin, const Config& config);

  ~PluginCommunicator();
  PluginCommunicator(const PluginCommunicator&) = delete;
  PluginCommunicator& operator=(const PluginCommunicator&) = delete;

  // Posts one operation.
  absl::StatusOr<Work> Post(Operation operation);

  // Posts `launches`, at least one and all of one plugin, as one: all are
  // started or none.
  static absl::StatusOr<std::vector<Work>> Post(
      std::span<const Launch* const> launches);

  // Null for color -1. Returns when all ranks have come.
  absl::StatusOr<std::shared_ptr<PluginCommunicator>> Split(
      int32_t color, int32_t key, absl::string_view name, absl::Time deadline);

  // Calls end with kAborted.
  void Abort(const absl::Status& reason);
  // Calls end with the code of `error`, if the plugin keeps it.
  void Break(const absl::Status& error);
  absl::Status Health() const;
  absl::StatusOr<CollectiveCounters> Counters() const;

  Rank rank() const { return config_.rank; }
  int32_t size() const { return config_.size; }
  const std::string& name() const { return config_.name; }
  const PluginInstance& plugin() const { return *plugin_; }
  muonshard_comm handle() const { return comm_; }
  Runtime& runtime() const { return plugin_->runtime(); }

  // `group "world", rank 2`, as errors begin.
  const std::string& Describe() const { return *description_; }

 private:
  PluginCommunicator(std::shared_ptr<const PluginInstance> plugin,
                     const Config& config, muonshard_comm comm);

  // Of what a post gave.
  Work WorkOf(muonshard_work work, const Operation& operation) const;
  absl::Status Refusal(muonshard_code code, const muonshard_status& status,
                       const Operation& operation) const;

  const std::shared_ptr<const PluginInstance> plugin_;
  const Config config_;
  const muonshard_comm comm_;
  // Works keep it, too.
  const std::shared_ptr<const std::string> description_;
  // Of the splits made so far, which all ranks make in the same order.
  int64_t split_count_ = 0;
};

}  // namespace muonshard

#endif  // COLLECTIVES_PLUGIN_COMMUNICATOR_H_
