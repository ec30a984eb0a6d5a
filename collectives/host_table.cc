#include "collectives/host_table.h"

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "collectives/abi_time.h"
#include "collectives/plugin_status.h"

namespace muonshard {
namespace {

Runtime& RuntimeOf(void* context) { return *static_cast<Runtime*>(context); }

Mutex* FromHandle(muonshard_mutex mutex) {
  return reinterpret_cast<Mutex*>(mutex);
}

Condition* FromHandle(muonshard_condition condition) {
  return reinterpret_cast<Condition*>(condition);
}

Task* FromHandle(muonshard_task task) { return reinterpret_cast<Task*>(task); }

// The result of `make`, owned by the plugin from then on, or null where memory
// or threads have run out.
template <typename Handle, typename Make>
Handle MakeHandle(Make make) noexcept {
  try {
    return reinterpret_cast<Handle>(make().release());
  } catch (const std::exception&) {
    return nullptr;
  }
}

void Log(void* context, int32_t severity, const char* text) {
  RuntimeOf(context).Log(severity, text == nullptr ? "" : text);
}

int64_t NowNs(void* context) {
  return ToAbiNanoseconds(RuntimeOf(context).Now());
}

void Yield(void* context) { RuntimeOf(context).Yield(); }

muonshard_mutex MutexNew(void* context) {
  return MakeHandle<muonshard_mutex>(
      [context] { return RuntimeOf(context).NewMutex(); });
}

void MutexFree(void*, muonshard_mutex mutex) { delete FromHandle(mutex); }

void MutexLockHandle(void*, muonshard_mutex mutex) {
  FromHandle(mutex)->Lock();
}

void MutexUnlockHandle(void*, muonshard_mutex mutex) {
  FromHandle(mutex)->Unlock();
}

muonshard_condition ConditionNew(void* context) {
  return MakeHandle<muonshard_condition>(
      [context] { return RuntimeOf(context).NewCondition(); });
}

void ConditionFree(void*, muonshard_condition condition) {
  delete FromHandle(condition);
}

int32_t ConditionWait(void*, muonshard_condition condition,
                      muonshard_mutex mutex, int64_t deadline_ns) {
  return FromHandle(condition)->Wait(*FromHandle(mutex),
                                     FromAbiNanoseconds(deadline_ns))
             ? 1
             : 0;
}

void ConditionNotifyAll(void*, muonshard_condition condition) {
  FromHandle(condition)->NotifyAll();
}

muonshard_task TaskStart(void* context, const char* name,
                         void (*function)(void* argument), void* argument) {
  return MakeHandle<muonshard_task>([&] {
    return RuntimeOf(context).Start(
        name, TaskKind::kService, [function, argument] { function(argument); });
  });
}

void TaskJoin(void*, muonshard_task task) {
  const std::unique_ptr<Task> joined(FromHandle(task));
  joined->Join();
}

uint64_t TaskCurrent(void* context) {
  return RuntimeOf(context).CurrentTaskId();
}

void EventThen(void*, muonshard_event event,
               void (*function)(void* argument, muonshard_code code,
                                const char* text),
               void* argument) {
  reinterpret_cast<const Event*>(event)->Then(
      [function, argument](const absl::Status& status) {
        const std::string text(status.message());
        function(argument, PluginCode(status.code()), text.c_str());
      });
}

}  // namespace

HostTable::HostTable(Runtime& runtime) : table_{} {
  table_.header.size = MUONSHARD_END(muonshard_host, event_then);
  table_.abi_major = MUONSHARD_ABI_MAJOR;
  table_.abi_minor = MUONSHARD_ABI_MINOR;
  table_.context = &runtime;
  table_.log = Log;
  table_.now_ns = NowNs;
  table_.yield = Yield;
  table_.mutex_new = MutexNew;
  table_.mutex_free = MutexFree;
  table_.mutex_lock = MutexLockHandle;
  table_.mutex_unlock = MutexUnlockHandle;
  table_.condition_new = ConditionNew;
  table_.condition_free = ConditionFree;
  table_.condition_wait = ConditionWait;
  table_.condition_notify_all = ConditionNotifyAll;
  table_.task_start = TaskStart;
  table_.task_join = TaskJoin;
  table_.task_current = TaskCurrent;
  table_.event_then = EventThen;
}

muonshard_event EventHandle(const Event& event) {
  // The handle is opaque to the plugin and read as const by EventThen.
  return reinterpret_cast<muonshard_event>(const_cast<Event*>(&event));
}

}  // namespace muonshard
