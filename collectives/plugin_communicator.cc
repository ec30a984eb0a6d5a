#include "collectives/plugin_communicator.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/abi_operation.h"
#include "collectives/abi_time.h"
#include "collectives/operation.h"
#include "collectives/plugin_status.h"
#include "collectives/plugin_work.h"
#include "collectives/work_sequence.h"

namespace muonshard {
namespace {

muonshard_comm_config AbiConfig(const PluginCommunicator::Config& config,
                                const PluginInstance& plugin) {
  muonshard_comm_config abi = {};
  abi.header.size = MUONSHARD_END(muonshard_comm_config, program_rank);
  abi.rank = ToInt(config.rank);
  abi.size = config.size;
  abi.store = config.store->get();
  abi.name = config.id.c_str();
  abi.deadline_ns = ToAbiNanoseconds(config.deadline);
  abi.options = plugin.options().c_str();
  abi.device = -1;
  abi.program_rank = ToInt(config.program_rank);
  return abi;
}

// With its number in the world where that is another: groups that one split
// made have one name, and ranks of the same numbers.
std::string DescribeRank(const PluginCommunicator::Config& config) {
  const int32_t rank = ToInt(config.rank);
  const int32_t program_rank = ToInt(config.program_rank);
  if (rank == program_rank) return absl::StrCat("rank ", rank);
  return absl::StrCat("rank ", rank, " (", program_rank, " of the world)");
}

std::string DescribeGroup(const PluginCommunicator::Config& config) {
  return absl::StrCat("group \"", config.name, "\", ", DescribeRank(config));
}

}  // namespace

PluginCommunicator::PluginCommunicator(
    std::shared_ptr<const PluginInstance> plugin, const Config& config,
    muonshard_comm comm)
    : plugin_(std::move(plugin)),
      config_(config),
      comm_(comm),
      description_(
          std::make_shared<const std::string>(DescribeGroup(config_))) {}

PluginCommunicator::~PluginCommunicator() { plugin_->table().comm_free(comm_); }

absl::StatusOr<std::shared_ptr<PluginCommunicator>> PluginCommunicator::Create(
    std::shared_ptr<const PluginInstance> plugin, const Config& config) {
  const muonshard_comm_config abi = AbiConfig(config, *plugin);
  muonshard_comm comm = nullptr;
  muonshard_status status = EmptyPluginStatus();
  const muonshard_code code =
      plugin->table().comm_new(plugin->handle(), &abi, &comm, &status);
  if (code != MUONSHARD_OK) {
    return StatusFromPlugin(code, status,
                            absl::StrCat(DescribeGroup(config), " of ",
                                         config.size, " cannot be made"),
                            /*in_operation=*/false);
  }
  return std::shared_ptr<PluginCommunicator>(
      new PluginCommunicator(std::move(plugin), config, comm));
}

Work PluginCommunicator::WorkOf(muonshard_work work,
                                const Operation& operation) const {
  CallName name = {description_, operation.kind, operation.options.label};
  if (work != nullptr) {
    return Work(std::make_shared<PluginWork>(plugin_, work, std::move(name)));
  }
  return FailedWork(
      runtime(),
      absl::InternalError(absl::StrCat(
          ToString(name), ": the plugin started it and gave no work")));
}

absl::Status PluginCommunicator::Refusal(muonshard_code code,
                                         const muonshard_status& status,
                                         const Operation& operation) const {
  return StatusFromPlugin(
      code, status,
      absl::StrCat(Describe(), ": ", DescribeOperation(operation)),
      /*in_operation=*/true);
}

absl::StatusOr<Work> PluginCommunicator::Post(Operation operation) {
  const AbiOperation abi(operation);
  const muonshard_operation* const described = abi.get();
  muonshard_work work = nullptr;
  uint32_t failed = 0;
  muonshard_status status = EmptyPluginStatus();
  const muonshard_code code =
      plugin_->table().post(&comm_, &described, 1, &work, &failed, &status);
  if (code != MUONSHARD_OK) return Refusal(code, status, operation);
  return WorkOf(work, operation);
}

absl::StatusOr<std::vector<Work>> PluginCommunicator::Post(
    std::span<const Launch* const> launches) {
  std::vector<AbiOperation> operations;
  std::vector<const muonshard_operation*> operation_pointers;
  std::vector<muonshard_comm> comms;
  operations.reserve(launches.size());
  operation_pointers.reserve(launches.size());
  comms.reserve(launches.size());
  for (const Launch* launch : launches) {
    operations.emplace_back(launch->operation);
    operation_pointers.push_back(operations.back().get());
    comms.push_back(launch->communicator->comm_);
  }

  std::vector<muonshard_work> works(launches.size(), nullptr);
  uint32_t failed = 0;
  muonshard_status status = EmptyPluginStatus();
  const muonshard_plugin_table& table =
      launches.front()->communicator->plugin_->table();
  const muonshard_code code = table.post(
      comms.data(), operation_pointers.data(),
      static_cast<uint32_t>(launches.size()), works.data(), &failed, &status);
  if (code != MUONSHARD_OK) {
    const Launch& culprit =
        *launches[std::min<size_t>(failed, launches.size() - 1)];
    return culprit.communicator->Refusal(code, status, culprit.operation);
  }
  std::vector<Work> result;
  result.reserve(launches.size());
  for (size_t i = 0; i < launches.size(); ++i) {
    result.push_back(
        launches[i]->communicator->WorkOf(works[i], launches[i]->operation));
  }
  return result;
}

absl::StatusOr<std::shared_ptr<PluginCommunicator>> PluginCommunicator::Split(
    int32_t color, int32_t key, absl::string_view name, absl::Time deadline) {
  const muonshard_plugin_table& table = plugin_->table();
  if (table.comm_split == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        Describe(), ": plugin \"", table.name, "\" cannot split groups"));
  }
  Config child = config_;
  child.name = std::string(name);
  // Groups of other colors have the same name, and so may later ones.
  child.id =
      absl::StrCat(config_.id, "/", name, ":", split_count_++, ":", color);
  child.deadline = deadline;
  const muonshard_comm_config abi = AbiConfig(child, *plugin_);
  muonshard_comm comm = nullptr;
  muonshard_status status = EmptyPluginStatus();
  int32_t new_rank = 0;
  const muonshard_code code = table.comm_split(comm_, color, key, &abi, &comm,
                                               &new_rank, &child.size, &status);
  if (code != MUONSHARD_OK) {
    return StatusFromPlugin(
        code, status,
        absl::StrCat(Describe(), ": Split \"", name, "\", color ", color),
        /*in_operation=*/false);
  }
  if (comm == nullptr) return nullptr;
  child.rank = Rank{new_rank};
  return std::shared_ptr<PluginCommunicator>(
      new PluginCommunicator(plugin_, child, comm));
}

void PluginCommunicator::Abort(const absl::Status& reason) {
  const std::string text =
      absl::StrCat("aborted by ", DescribeRank(config_), ": ",
                   reason.ok() ? "no reason given" : reason.ToString());
  const muonshard_status why =
      StatusForPlugin(MUONSHARD_E_ABORTED, text, ToInt(config_.rank));
  plugin_->table().comm_abort(comm_, &why);
}

void PluginCommunicator::Break(const absl::Status& error) {
  const muonshard_status why = StatusForPlugin(
      PluginCode(error.code()), error.message(), ToInt(config_.rank));
  plugin_->table().comm_abort(comm_, &why);
}

absl::Status PluginCommunicator::Health() const {
  muonshard_status status = EmptyPluginStatus();
  const muonshard_code code = plugin_->table().comm_query(comm_, &status);
  return StatusFromPlugin(code, status, Describe(), /*in_operation=*/false);
}

absl::StatusOr<CollectiveCounters> PluginCommunicator::Counters() const {
  CollectiveCounters result;
  result.bytes_sent_to.resize(static_cast<size_t>(config_.size));
  muonshard_counters counters = {};
  counters.header.size = MUONSHARD_END(muonshard_counters, reserved);
  counters.bytes_sent_to = result.bytes_sent_to.data();
  counters.peer_capacity = static_cast<uint32_t>(config_.size);
  muonshard_status status = EmptyPluginStatus();
  const muonshard_code code =
      plugin_->table().comm_counters(comm_, &counters, &status);
  if (code != MUONSHARD_OK) {
    return StatusFromPlugin(code, status,
                            absl::StrCat(Describe(), ": counters"),
                            /*in_operation=*/false);
  }
  std::copy_n(counters.calls, result.calls.size(), result.calls.begin());
  return result;
}

}  // namespace muonshard
