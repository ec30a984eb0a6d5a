// The plugin table: handles, argument structs and codes of plugin_abi.h on one
// side, objects on the other.

#include <pthread.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/support/call.h"
#include "plugins/support/host.h"
#include "plugins/support/outcome.h"
#include "plugins/ucx/group.h"
#include "plugins/ucx/locked.h"
#include "plugins/ucx/retired_groups.h"

struct muonshard_plugin_s {
  explicit muonshard_plugin_s(const muonshard_host& host)
      : opened(std::make_shared<muonshard::ucx::Opened>(host)),
        retired(opened->host) {}

  const std::shared_ptr<muonshard::ucx::Opened> opened;
  muonshard::ucx::RetiredGroups retired;
};

struct muonshard_comm_s {
  muonshard_plugin plugin;
  std::shared_ptr<muonshard::ucx::Group> group;
};

struct muonshard_window_s {
  int32_t window;
};

struct muonshard_work_s {
  std::shared_ptr<muonshard::ucx::Group> group;
  std::shared_ptr<muonshard::ucx::Operation> operation;
};

namespace muonshard::ucx {
namespace {

using plugins::Guarded;
using plugins::Host;
using plugins::Outcome;
using plugins::Report;

Outcome Version(const char* what, uint32_t got, size_t want) {
  return {.code = MUONSHARD_E_VERSION,
          .text = std::string(what) + " has " + std::to_string(got) +
                  " bytes, want at least " + std::to_string(want)};
}

// A task of a simulated runtime is no thread, and its clock does not move while
// the system waits for a message.
bool TasksAreThreads(const Host& host) {
  struct Seen {
    pthread_t thread;
  } seen = {};
  muonshard_task const task = host.StartTask(
      "ucx",
      [](void* argument) {
        static_cast<Seen*>(argument)->thread = pthread_self();
      },
      &seen);
  host.JoinTask(task);
  return pthread_equal(seen.thread, pthread_self()) == 0;
}

Outcome CheckOptions(const std::string& options) {
  const auto is_filler = [](char c) { return c == ' ' || c == '\n'; };
  std::string bare;
  for (const char c : options) {
    if (!is_filler(c)) bare += c;
  }
  if (bare.empty() || bare == "{}") return {};
  return {.code = MUONSHARD_E_ARGUMENT,
          .text = "ucx has no options, got " + options +
                  "; UCX's own variables, UCX_TLS and UCX_NET_DEVICES, choose "
                  "transports and devices"};
}

muonshard_code Open(const muonshard_host* host, const char* options,
                    muonshard_plugin* plugin, muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    if (Outcome bad = CheckOptions(options == nullptr ? "" : options);
        !bad.ok()) {
      return bad;
    }
    auto made = std::make_unique<muonshard_plugin_s>(*host);
    if (!TasksAreThreads(made->opened->host)) {
      return {.code = MUONSHARD_E_UNSUPPORTED,
              .text =
                  "ucx moves messages in real time, and cannot run on the "
                  "simulated runtime"};
    }
    if (Outcome bad = Context::Open(&made->opened->context); !bad.ok()) {
      return bad;
    }
    *plugin = made.release();
    return {};
  });
}

void Close(muonshard_plugin plugin) { delete plugin; }

muonshard_code Caps(muonshard_plugin, int32_t, muonshard_caps* caps,
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
    caps->features =
        MUONSHARD_FEATURE_CANONICAL | MUONSHARD_FEATURE_REPEATABLE |
        MUONSHARD_FEATURE_MISMATCH_DETECTED | MUONSHARD_FEATURE_SPLIT |
        MUONSHARD_FEATURE_WINDOW | MUONSHARD_FEATURE_EXACT_COUNTERS;
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
    plugin->retired.Collect();
    auto handle = std::make_unique<muonshard_comm_s>();
    handle->plugin = plugin;
    const JoinArguments arguments = {
        .store = config->store,
        .identity = {.name = config->name == nullptr ? "" : config->name,
                     .rank = config->rank,
                     .size = config->size,
                     .program_rank = config->program_rank},
        .deadline_ns = config->deadline_ns};
    if (Outcome bad = Group::Make(plugin->opened, arguments, &handle->group);
        !bad.ok()) {
      return bad;
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
    handle->plugin = parent->plugin;
    if (Outcome bad = parent->group->Split(color, key, *config, &handle->group);
        !bad.ok()) {
      return bad;
    }
    *comm = nullptr;
    *new_rank = -1;
    *new_size = 0;
    if (handle->group == nullptr) return {};
    const Identity& identity = handle->group->communicator().identity();
    *new_rank = identity.rank;
    *new_size = identity.size;
    *comm = handle.release();
    return {};
  });
}

muonshard_code CommQuery(muonshard_comm comm, muonshard_status* status) {
  return Guarded(status, [&] {
    Locked locked(comm->group->shared());
    comm->group->communicator().Advance();
    return comm->group->communicator().failure();
  });
}

void CommAbort(muonshard_comm comm, const muonshard_status* why) {
  Guarded(nullptr, [&]() -> Outcome {
    const std::shared_ptr<Group> group = comm->group;
    Outcome reason{.code = MUONSHARD_E_ABORTED};
    if (why != nullptr) {
      if (why->code >= MUONSHARD_E_ARGUMENT) reason.code = why->code;
      reason.text = why->text;
      reason.rank = why->rank;
      reason.sequence = why->sequence;
    }
    Locked locked(group->shared());
    group->communicator().Break(reason);
    return {};
  });
}

void CommFree(muonshard_comm comm) {
  const std::unique_ptr<muonshard_comm_s> freed(comm);
  freed->group->service().Leave();
  freed->plugin->retired.Add(std::move(freed->group));
  freed->plugin->retired.Collect();
}

muonshard_code CommCounters(muonshard_comm comm, muonshard_counters* counters,
                            muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    if (!MUONSHARD_HAS(counters, muonshard_counters, peer_capacity)) {
      return Version("counters", counters->header.size,
                     MUONSHARD_END(muonshard_counters, peer_capacity));
    }
    Communicator& communicator = comm->group->communicator();
    const auto size = static_cast<uint32_t>(communicator.identity().size);
    if (counters->peer_capacity < size || counters->bytes_sent_to == nullptr) {
      return {.code = MUONSHARD_E_ARGUMENT,
              .text = "counters have room for " +
                      std::to_string(counters->peer_capacity) +
                      " ranks, want " + std::to_string(size)};
    }
    Locked locked(comm->group->shared());
    communicator.Count(counters);
    return {};
  });
}

muonshard_code MemoryNew(muonshard_comm comm, uint64_t bytes,
                         uint32_t memory_kind, int64_t deadline_ns, void** data,
                         muonshard_window* window, muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    if (memory_kind != MUONSHARD_MEMORY_HOST) {
      return {.code = MUONSHARD_E_UNSUPPORTED,
              .text = "ucx makes host memory alone, asked for kind " +
                      std::to_string(memory_kind)};
    }
    auto handle = std::make_unique<muonshard_window_s>();
    if (Outcome bad =
            comm->group->NewMemory(bytes, deadline_ns, data, &handle->window);
        !bad.ok()) {
      return bad;
    }
    *window = handle.release();
    return {};
  });
}

muonshard_code MemoryFree(muonshard_comm comm, muonshard_window window,
                          muonshard_status* status) {
  return Guarded(status, [&] {
    const std::unique_ptr<muonshard_window_s> freed(window);
    return comm->group->FreeMemory(freed->window);
  });
}

muonshard_code PostAll(const muonshard_comm* comms,
                       const muonshard_operation* const* operations,
                       uint32_t count, muonshard_work* works, uint32_t* failed,
                       muonshard_status* status) {
  uint32_t at_fault = 0;
  const muonshard_code code = Guarded(status, [&] {
    // One is the most frequent number.
    if (count == 1) {
      std::shared_ptr<Operation> posted;
      const PostRequest request = {comms[0]->group.get(), operations[0]};
      auto handle = std::make_unique<muonshard_work_s>();
      const Outcome outcome = Post({&request, 1}, {&posted, 1}, &at_fault);
      if (!outcome.ok()) return outcome;
      *handle = {comms[0]->group, std::move(posted)};
      works[0] = handle.release();
      return outcome;
    }
    std::vector<PostRequest> requests;
    std::vector<std::unique_ptr<muonshard_work_s>> handles;
    for (uint32_t i = 0; i < count; ++i) {
      requests.push_back({comms[i]->group.get(), operations[i]});
      handles.push_back(std::make_unique<muonshard_work_s>());
    }
    std::vector<std::shared_ptr<Operation>> posted(count);
    Outcome outcome = Post(requests, posted, &at_fault);
    for (uint32_t i = 0; i < count && outcome.ok(); ++i) {
      *handles[i] = {comms[i]->group, std::move(posted[i])};
      works[i] = handles[i].release();
    }
    return outcome;
  });
  if (code != MUONSHARD_OK && failed != nullptr) *failed = at_fault;
  return code;
}

muonshard_code WorkTest(muonshard_work work, muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    Locked locked(work->operation->communicator);
    if (!work->operation->ended) work->operation->communicator->Advance();
    if (!work->operation->ended) return {.code = MUONSHARD_IN_PROGRESS};
    return work->operation->outcome;
  });
}

muonshard_code WorkWait(muonshard_work work, int64_t deadline_ns,
                        muonshard_status* status) {
  return Guarded(status, [&] {
    const std::shared_ptr<Group> group = work->group;
    const std::shared_ptr<Operation> operation = work->operation;
    return group->service().Wait(*operation, deadline_ns);
  });
}

muonshard_code WorkThen(muonshard_work work, muonshard_done_function function,
                        void* argument, muonshard_status* status) {
  return Guarded(status, [&]() -> Outcome {
    const std::shared_ptr<Operation> operation = work->operation;
    {
      Locked locked(operation->communicator);
      if (!operation->ended) {
        operation->callbacks.push_back({function, argument});
        return {};
      }
    }
    muonshard_status ended;
    Report(operation->outcome, &ended);
    function(argument, &ended);
    return {};
  });
}

void WorkFree(muonshard_work work) { delete work; }

constexpr muonshard_plugin_table kTable = {
    .header = {.size = MUONSHARD_END(muonshard_plugin_table, report),
               .reserved = 0},
    .abi_major = MUONSHARD_ABI_MAJOR,
    .abi_minor = MUONSHARD_ABI_MINOR,
    .name = "ucx",
    .build = "ucx 1.0, processes on host memory over UCX",
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
    .memory_register = nullptr,  // Other memory is copied.
    .memory_free = MemoryFree,
    .post = PostAll,
    .work_test = WorkTest,
    .work_wait = WorkWait,
    .work_then = WorkThen,
    .work_free = WorkFree,
    .work_after = nullptr,  // No device memory.
    .report = nullptr,
};

}  // namespace
}  // namespace muonshard::ucx

extern "C" MUONSHARD_EXPORT const muonshard_plugin_table*
muonshard_plugin_entry_v1(const muonshard_host* host,
                          muonshard_status* status) {
  using muonshard::plugins::Outcome;
  using muonshard::plugins::Report;
  if (host != nullptr && host->abi_major == MUONSHARD_ABI_MAJOR &&
      MUONSHARD_HAS(host, muonshard_host, event_then)) {
    return &muonshard::ucx::kTable;
  }
  Report(Outcome{.code = MUONSHARD_E_VERSION,
                 .text = "ucx wants the host table of ABI 1.0"},
         status);
  return nullptr;
}
