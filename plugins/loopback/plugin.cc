// The plugin table: handles, argument structs and codes of plugin_abi.h on one
// side, objects on the other.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/loopback/communicator.h"
#include "plugins/loopback/domain.h"
#include "plugins/loopback/group.h"
#include "plugins/loopback/laboratory.h"
#include "plugins/loopback/model/network_clock.h"
#include "plugins/loopback/options.h"
#include "plugins/loopback/outcome.h"
#include "plugins/loopback/post.h"
#include "plugins/loopback/registry.h"
#include "plugins/loopback/rendezvous.h"
#include "plugins/loopback/split_group.h"
#include "plugins/loopback/wait.h"
#include "plugins/loopback/work.h"

struct muonshard_plugin_s {
  std::shared_ptr<muonshard::loopback::Domain> domain;
  std::shared_ptr<muonshard::loopback::Laboratory> laboratory;
  muonshard::loopback::Options options;
  // Null: data is moved.
  std::shared_ptr<muonshard::loopback::NetworkClock> network;
};

struct muonshard_comm_s {
  std::shared_ptr<muonshard::loopback::Communicator> communicator;
};

struct muonshard_work_s {
  std::shared_ptr<muonshard::loopback::Work> work;
};

struct muonshard_window_s {
  void* memory;  // Null: registered memory, which stays the caller's.
};

namespace muonshard::loopback {
namespace {

Outcome Version(const char* what, uint32_t got, size_t want) {
  return {.code = MUONSHARD_E_VERSION,
          .text = std::string(what) + " has " + std::to_string(got) +
                  " bytes, want at least " + std::to_string(want)};
}

muonshard_code Open(const muonshard_host* host, const char* options,
                    muonshard_plugin* plugin, muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    auto opened = std::make_unique<muonshard_plugin_s>();
    if (Outcome bad = ReadOptions(options, &opened->options); !bad.ok()) {
      return bad;
    }
    opened->domain = Registry::Get().DomainOf(*host);
    opened->laboratory = std::make_shared<Laboratory>(
        opened->options.faults, opened->options.checks == 1);
    if (Outcome bad = NetworkClock::Open(
            opened->domain, opened->options.network,
            opened->laboratory->makes_messages(), &opened->network);
        !bad.ok()) {
      return bad;
    }
    *plugin = opened.release();
    return {};
  });
}

void Close(muonshard_plugin plugin) {
  const std::unique_ptr<muonshard_plugin_s> closed(plugin);
  HostLock lock(closed->domain->mutex());
  if (closed->network != nullptr) closed->network->Close(lock);
  closed->domain->JoinRetired(lock);
}

muonshard_code Caps(muonshard_plugin plugin, int32_t, muonshard_caps* caps,
                    muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    if (!MUONSHARD_HAS(caps, muonshard_caps, reserved)) {
      return Version("caps", caps->header.size,
                     MUONSHARD_END(muonshard_caps, reserved));
    }
    caps->operations = (uint64_t{1} << MUONSHARD_OPERATION_KINDS) - 1;
    caps->data_types = 0;
    for (const uint32_t type :
         {MUONSHARD_BF16, MUONSHARD_F16, MUONSHARD_F32, MUONSHARD_F64,
          MUONSHARD_I32, MUONSHARD_I64, MUONSHARD_U8}) {
      caps->data_types |= uint64_t{1} << type;
    }
    caps->reductions = 0;
    for (const uint32_t reduction :
         {MUONSHARD_SUM, MUONSHARD_MIN, MUONSHARD_MAX, MUONSHARD_AVERAGE,
          MUONSHARD_SCALED_SUM}) {
      caps->reductions |= uint64_t{1} << reduction;
    }
    caps->memory_kinds = uint64_t{1} << MUONSHARD_MEMORY_HOST;
    caps->features = MUONSHARD_FEATURE_MISMATCH_DETECTED |
                     MUONSHARD_FEATURE_DEADLOCK_DETECTED |
                     MUONSHARD_FEATURE_SPLIT | MUONSHARD_FEATURE_WINDOW |
                     MUONSHARD_FEATURE_EXACT_COUNTERS;
    // On a network there are no results.
    if (plugin->network == nullptr) {
      caps->features |=
          MUONSHARD_FEATURE_CANONICAL | MUONSHARD_FEATURE_REPEATABLE;
    }
    caps->ranks_max = 0;
    return {};
  });
}

muonshard_code CommNew(muonshard_plugin plugin,
                       const muonshard_comm_config* config,
                       muonshard_comm* comm, muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    if (!MUONSHARD_HAS(config, muonshard_comm_config, program_rank)) {
      return Version("comm_config", config->header.size,
                     MUONSHARD_END(muonshard_comm_config, program_rank));
    }
    Options options = plugin->options;
    if (Outcome bad = ReadOptions(config->options, &options); !bad.ok()) {
      return bad;
    }
    if (Outcome bad = CheckOfGroup(options, plugin->options); !bad.ok()) {
      return bad;
    }
    auto handle = std::make_unique<muonshard_comm_s>();
    if (Outcome failed =
            JoinGroup(plugin->domain, plugin->laboratory, *config, options,
                      plugin->network, &handle->communicator);
        !failed.ok()) {
      return failed;
    }
    *comm = handle.release();
    return {};
  });
}

muonshard_code CommSplit(muonshard_comm parent, int32_t color, int32_t key,
                         const muonshard_comm_config* config,
                         muonshard_comm* comm, int32_t* new_rank,
                         int32_t* new_size, muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    if (!MUONSHARD_HAS(config, muonshard_comm_config, program_rank)) {
      return Version("comm_config", config->header.size,
                     MUONSHARD_END(muonshard_comm_config, program_rank));
    }
    auto handle = std::make_unique<muonshard_comm_s>();
    const SplitArguments arguments{
        .color = color,
        .key = key,
        .name = config->name == nullptr ? "" : config->name,
        .deadline_ns = config->deadline_ns};
    if (Outcome failed =
            SplitGroup(*parent->communicator, arguments, &handle->communicator);
        !failed.ok()) {
      return failed;
    }
    *comm = nullptr;
    *new_rank = -1;
    *new_size = 0;
    if (handle->communicator == nullptr) return {};
    *new_rank = handle->communicator->rank();
    *new_size = handle->communicator->group()->size();
    *comm = handle.release();
    return {};
  });
}

muonshard_code CommQuery(muonshard_comm comm, muonshard_status* status) {
  return Guarded(status, [&] {
    const Communicator& communicator = *comm->communicator;
    HostLock lock(communicator.domain()->mutex());
    return communicator.failure();
  });
}

void CommAbort(muonshard_comm comm, const muonshard_status* why) {
  Guarded(nullptr, [&]() -> Outcome {
    const std::shared_ptr<Communicator> communicator = comm->communicator;
    Outcome reason{.code = MUONSHARD_E_ABORTED};
    if (why != nullptr) {
      if (why->code >= MUONSHARD_E_ARGUMENT) reason.code = why->code;
      reason.text = why->text;
      reason.rank = why->rank;
      reason.sequence = why->sequence;
    }
    HostLock lock(communicator->domain()->mutex());
    communicator->Abort(reason);
    communicator->domain()->Settle(lock);
    return {};
  });
}

void CommFree(muonshard_comm comm) {
  const std::unique_ptr<muonshard_comm_s> freed(comm);
  HostLock lock(freed->communicator->domain()->mutex());
  freed->communicator->Leave(lock);
}

muonshard_code CommCounters(muonshard_comm comm, muonshard_counters* counters,
                            muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    const Communicator& communicator = *comm->communicator;
    if (!MUONSHARD_HAS(counters, muonshard_counters, peer_capacity)) {
      return Version("counters", counters->header.size,
                     MUONSHARD_END(muonshard_counters, peer_capacity));
    }
    const auto size = static_cast<uint32_t>(communicator.group()->size());
    if (counters->peer_capacity < size || counters->bytes_sent_to == nullptr) {
      return {.code = MUONSHARD_E_ARGUMENT,
              .text = "counters have room for " +
                      std::to_string(counters->peer_capacity) +
                      " ranks, want " + std::to_string(size)};
    }
    HostLock lock(communicator.domain()->mutex());
    communicator.Count(counters);
    return communicator.death();
  });
}

Outcome CheckMemoryCall(const Communicator& communicator,
                        uint32_t memory_kind) {
  if (memory_kind == MUONSHARD_MEMORY_HOST) {
    HostLock lock(communicator.domain()->mutex());
    return communicator.death();
  }
  return {.code = MUONSHARD_E_UNSUPPORTED,
          .text = "loopback works on host memory alone"};
}

// All ranks share one memory, so that nobody has to wait for the others.
muonshard_code MemoryNew(muonshard_comm comm, uint64_t bytes,
                         uint32_t memory_kind, int64_t, void** data,
                         muonshard_window* window, muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    if (Outcome bad = CheckMemoryCall(*comm->communicator, memory_kind);
        !bad.ok()) {
      return bad;
    }
    auto handle = std::make_unique<muonshard_window_s>();
    handle->memory = comm->communicator->NewMemory(bytes);
    *data = handle->memory;
    *window = handle.release();
    return {};
  });
}

muonshard_code MemoryRegister(muonshard_comm comm, void*, uint64_t,
                              uint32_t memory_kind, muonshard_window* window,
                              muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    if (Outcome bad = CheckMemoryCall(*comm->communicator, memory_kind);
        !bad.ok()) {
      return bad;
    }
    *window = new muonshard_window_s{.memory = nullptr};
    return {};
  });
}

muonshard_code MemoryFree(muonshard_comm comm, muonshard_window window,
                          muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    const std::unique_ptr<muonshard_window_s> freed(window);
    Communicator& communicator = *comm->communicator;
    Outcome outcome;
    if (freed->memory != nullptr) {
      outcome = communicator.FreeMemory(freed->memory);
    }
    if (!outcome.ok()) return outcome;
    HostLock lock(communicator.domain()->mutex());
    return communicator.death();
  });
}

muonshard_code PostAll(const muonshard_comm* comms,
                       const muonshard_operation* const* operations,
                       uint32_t count, muonshard_work* works, uint32_t* failed,
                       muonshard_status* status) {
  uint32_t at_fault = 0;
  const muonshard_code code = Guarded(status, [&]() -> Outcome {
    std::vector<PostRequest> requests;
    std::vector<std::unique_ptr<muonshard_work_s>> handles;
    for (uint32_t i = 0; i < count; ++i) {
      requests.push_back({comms[i]->communicator, operations[i]});
      handles.push_back(std::make_unique<muonshard_work_s>());
    }
    std::vector<std::shared_ptr<Work>> posted;
    if (Outcome bad = Post(requests, &posted, &at_fault); !bad.ok()) return bad;
    for (uint32_t i = 0; i < count; ++i) {
      handles[i]->work = std::move(posted[i]);
      works[i] = handles[i].release();
    }
    return {};
  });
  if (code != MUONSHARD_OK && failed != nullptr) *failed = at_fault;
  return code;
}

muonshard_code WorkTest(muonshard_work work, muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    HostLock lock(work->work->communicator->domain()->mutex());
    if (!work->work->ended) return {.code = MUONSHARD_IN_PROGRESS};
    return work->work->outcome;
  });
}

muonshard_code WorkWait(muonshard_work work, int64_t deadline_ns,
                        muonshard_status* status) {
  return Guarded(status, [&] {
    const std::shared_ptr<Work> waited_for = work->work;
    return WaitForWork(*waited_for, deadline_ns);
  });
}

muonshard_code WorkThen(muonshard_work handle, muonshard_done_function function,
                        void* argument, muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    const std::shared_ptr<Work> work = handle->work;
    {
      HostLock lock(work->communicator->domain()->mutex());
      if (!work->ended) {
        work->callbacks.push_back({function, argument});
        return {};
      }
    }
    muonshard_status ended;
    Report(work->outcome, &ended);
    function(argument, &ended);
    return {};
  });
}

void WorkFree(muonshard_work work) { delete work; }

muonshard_code PluginReport(muonshard_plugin plugin, char* text,
                            uint64_t capacity, uint64_t* bytes,
                            muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    HostLock lock(plugin->domain->mutex());
    const std::string report = plugin->laboratory->Report();
    *bytes = report.size();
    report.copy(text, std::min<uint64_t>(capacity, report.size()));
    return {};
  });
}

constexpr muonshard_plugin_table kTable = {
    .header = {.size = MUONSHARD_END(muonshard_plugin_table, report),
               .reserved = 0},
    .abi_major = MUONSHARD_ABI_MAJOR,
    .abi_minor = MUONSHARD_ABI_MINOR,
    .name = "loopback",
    .build = "loopback 1.0, ranks of one process on host memory",
    .open = Open,
    .close = Close,
    .caps = Caps,
    .comm_new = CommNew,
    .comm_split = CommSplit,
    .comm_query = CommQuery,
    .comm_abort = CommAbort,
    .comm_free = CommFree,
    .comm_counters = CommCounters,
    .memory_new = MemoryNew,
    .memory_register = MemoryRegister,
    .memory_free = MemoryFree,
    .post = PostAll,
    .work_test = WorkTest,
    .work_wait = WorkWait,
    .work_then = WorkThen,
    .work_free = WorkFree,
    .work_after = nullptr,  // No device memory.
    .report = PluginReport,
};

}  // namespace
}  // namespace muonshard::loopback

extern "C" MUONSHARD_EXPORT const muonshard_plugin_table*
muonshard_plugin_entry_v1(const muonshard_host* host,
                          muonshard_status* status) {
  using muonshard::loopback::Outcome;
  using muonshard::loopback::Report;
  if (host != nullptr && host->abi_major == MUONSHARD_ABI_MAJOR &&
      MUONSHARD_HAS(host, muonshard_host, event_then)) {
    return &muonshard::loopback::kTable;
  }
  Report(Outcome{.code = MUONSHARD_E_VERSION,
                 .text = "loopback wants the host table of ABI 1.0"},
         status);
  return nullptr;
}
