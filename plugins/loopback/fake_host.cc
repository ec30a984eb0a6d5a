#include "plugins/loopback/fake_host.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace muonshard::loopback {
namespace {

FakeHost& Of(void* context) { return *static_cast<FakeHost*>(context); }

muonshard_code StoreError(muonshard_status* status, const char* text) {
  *status = {};
  status->code = MUONSHARD_E_TIMEOUT;
  std::strncpy(status->text, text, sizeof(status->text) - 1);
  return status->code;
}

}  // namespace

void FakeEvent::Happen(muonshard_code code, const char* text) {
  for (const Listener& listener : std::exchange(listeners_, {})) {
    listener.function(listener.argument, code, text);
  }
}

template <typename Handle>
Handle FakeHost::NewObject() {
  if (objects_fail_) return nullptr;
  ++live_objects_;
  return reinterpret_cast<Handle>(this);
}

FakeHost::FakeHost() {
  host_.header.size = MUONSHARD_END(muonshard_host, event_then);
  host_.abi_major = MUONSHARD_ABI_MAJOR;
  host_.abi_minor = MUONSHARD_ABI_MINOR;
  host_.context = this;
  host_.log = [](void* host, int32_t, const char* text) {
    Of(host).lines_.push_back(text);
  };
  host_.now_ns = [](void* host) { return Of(host).now_ns_; };
  host_.yield = [](void*) {};
  host_.mutex_new = [](void* host) {
    return Of(host).NewObject<muonshard_mutex>();
  };
  host_.mutex_free = [](void* host, muonshard_mutex) { Of(host).FreeObject(); };
  host_.mutex_lock = [](void*, muonshard_mutex) {};
  host_.mutex_unlock = [](void*, muonshard_mutex) {};
  host_.condition_new = [](void* host) {
    return Of(host).NewObject<muonshard_condition>();
  };
  host_.condition_free = [](void* host, muonshard_condition) {
    Of(host).FreeObject();
  };
  // Nobody else runs, so a wait lasts until its deadline.
  host_.condition_wait = [](void* host, muonshard_condition, muonshard_mutex,
                            int64_t deadline_ns) {
    Of(host).now_ns_ = std::max(Of(host).now_ns_, deadline_ns);
    return int32_t{0};
  };
  host_.condition_notify_all = [](void*, muonshard_condition) {};
  host_.task_start = [](void*, const char*, void (*)(void*),
                        void*) -> muonshard_task { return nullptr; };
  host_.task_join = [](void*, muonshard_task) {};
  host_.task_current = [](void*) { return uint64_t{1}; };
  host_.event_then = [](void*, muonshard_event event,
                        void (*function)(void*, muonshard_code, const char*),
                        void* argument) {
    reinterpret_cast<FakeEvent*>(event)->listeners_.push_back(
        {function, argument});
  };

  store_.header.size = MUONSHARD_END(muonshard_store, add);
  store_.context = this;
  store_.put = [](void* host, const char* key, const void* value,
                  uint64_t bytes, muonshard_status* status) -> muonshard_code {
    if (Of(host).store_fails_) return StoreError(status, "no store");
    Of(host).values_[key].assign(static_cast<const char*>(value), bytes);
    return MUONSHARD_OK;
  };
  store_.get = [](void* host, const char* key, void* value, uint64_t capacity,
                  uint64_t* bytes, int64_t deadline_ns,
                  muonshard_status* status) -> muonshard_code {
    const auto found = Of(host).values_.find(key);
    if (found == Of(host).values_.end()) {
      Of(host).now_ns_ = std::max(Of(host).now_ns_, deadline_ns);
      return StoreError(status, "no key");
    }
    *bytes = found->second.size();
    std::memcpy(value, found->second.data(), std::min(*bytes, capacity));
    return MUONSHARD_OK;
  };
  store_.add = [](void* host, const char* key, int64_t delta, int64_t* now,
                  muonshard_status* status) -> muonshard_code {
    if (Of(host).store_fails_) return StoreError(status, "no store");
    *now = Of(host).sums_[key] += delta;
    return MUONSHARD_OK;
  };
}

}  // namespace muonshard::loopback
