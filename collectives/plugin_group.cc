#include "collectives/plugin_group.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/flat_collective.h"
#include "collectives/plugin_communicator.h"
#include "collectives/shared_capabilities.h"
#include "collectives/store.h"
#include "collectives/store_table.h"

namespace muonshard {
namespace {

absl::Status CheckConfig(const GroupConfig& config, const muonshard_caps& caps,
                         absl::string_view plugin) {
  if (absl::Status s = CheckStoreKey(config.name); !s.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("name of a group: ", s.message()));
  }
  const auto error = [&config](const auto&... text) {
    return absl::InvalidArgumentError(
        absl::StrCat("group \"", config.name, "\": ", text...));
  };
  const int32_t rank = ToInt(config.rank);
  if (config.size < 1) {
    return error("want a size of at least 1, got ", config.size);
  }
  if (rank < 0 || rank >= config.size) {
    return error("want a rank in [0, ", config.size, "), got ", rank);
  }
  if (caps.ranks_max != 0 &&
      config.size > static_cast<int64_t>(caps.ranks_max)) {
    return error("plugin \"", plugin, "\" has at most ", caps.ranks_max,
                 " ranks in a group, want ", config.size);
  }
  if (config.size > 1 && config.store == nullptr) {
    return error("a group of ", config.size, " ranks needs a store");
  }
  return absl::OkStatus();
}

// A table over `config.store`, or over a store of its own, which a group of
// one rank may go without.
std::shared_ptr<const StoreTable> TableOf(const GroupConfig& config,
                                          Runtime& runtime) {
  if (config.store != nullptr) {
    return std::make_shared<const StoreTable>(*config.store);
  }
  struct Owner {
    explicit Owner(Runtime& r) : store(NewInProcessStore(r)), table(*store) {}
    const std::unique_ptr<Store> store;
    const StoreTable table;
  };
  const auto owner = std::make_shared<const Owner>(runtime);
  return std::shared_ptr<const StoreTable>(owner, &owner->table);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> NewPluginGroup(
    std::shared_ptr<const PluginInstance> plugin, const GroupConfig& config) {
  const absl::StatusOr<muonshard_caps> caps = plugin->Caps();
  if (!caps.ok()) return caps.status();
  if (absl::Status s = CheckConfig(config, *caps, plugin->table().name);
      !s.ok()) {
    return s;
  }
  PluginCommunicator::Config communicator_config;
  communicator_config.rank = config.rank;
  communicator_config.size = config.size;
  communicator_config.name = config.name;
  communicator_config.id = config.name;
  communicator_config.deadline = config.deadline;
  communicator_config.program_rank = config.rank;
  communicator_config.store = TableOf(config, plugin->runtime());
  Store& store = communicator_config.store->store();

  absl::StatusOr<std::shared_ptr<PluginCommunicator>> communicator =
      PluginCommunicator::Create(std::move(plugin), communicator_config);
  if (!communicator.ok()) return communicator.status();
  const absl::StatusOr<Capabilities> capabilities = SharedCapabilities(
      *caps, store, config.name, config.rank, config.size, config.deadline);
  if (!capabilities.ok()) {
    return absl::Status(capabilities.status().code(),
                        absl::StrCat((*communicator)->Describe(), ": ",
                                     capabilities.status().message()));
  }
  return NewFlatCollective(*std::move(communicator), *capabilities);
}

}  // namespace muonshard
