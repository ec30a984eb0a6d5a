// The host table of plugin_abi.h as objects that free themselves.
//
// Threads      As the host table: everything from any task. A HostCondition is
//              always used with the same HostMutex.
// Memory       A Host copies the table, so it may outlive the pointer that the
//              plugin was given; the context behind it lives longer.
// Errors       What the host cannot make is std::bad_alloc.

#ifndef PLUGINS_SUPPORT_HOST_H_
#define PLUGINS_SUPPORT_HOST_H_

#include <cstdint>
#include <new>
#include <string>

#include "collectives/plugin_abi.h"

namespace muonshard::plugins {

// An instant that never passes.
inline constexpr int64_t kNever = INT64_MAX;

class Host {
 public:
  explicit Host(const muonshard_host& table) : table_(table) {}

  const muonshard_host& table() const { return table_; }
  void* context() const { return table_.context; }
  int64_t Now() const { return table_.now_ns(context()); }
  uint64_t CurrentTask() const { return table_.task_current(context()); }
  void Yield() const { table_.yield(context()); }
  void LogError(const std::string& text) const {
    table_.log(context(), 2, text.c_str());
  }

  muonshard_task StartTask(const char* name, void (*function)(void*),
                           void* argument) const {
    return table_.task_start(context(), name, function, argument);
  }
  void JoinTask(muonshard_task task) const {
    table_.task_join(context(), task);
  }

 private:
  const muonshard_host table_;
};

class HostMutex {
 public:
  explicit HostMutex(const Host& host)
      : host_(host), handle_(host.table().mutex_new(host.context())) {
    if (handle_ == nullptr) throw std::bad_alloc();
  }
  ~HostMutex() { host_.table().mutex_free(host_.context(), handle_); }
  HostMutex(const HostMutex&) = delete;
  HostMutex& operator=(const HostMutex&) = delete;

 private:
  friend class HostLock;
  friend class HostCondition;
  const Host& host_;
  const muonshard_mutex handle_;
};

// Holds a mutex for its own life, but for the stretches between Unlock and
// Lock.
class HostLock {
 public:
  explicit HostLock(HostMutex& mutex) : mutex_(mutex) { Lock(); }
  ~HostLock() {
    if (held_) Unlock();
  }
  HostLock(const HostLock&) = delete;
  HostLock& operator=(const HostLock&) = delete;

  void Lock() {
    mutex_.host_.table().mutex_lock(mutex_.host_.context(), mutex_.handle_);
    held_ = true;
  }
  void Unlock() {
    held_ = false;
    mutex_.host_.table().mutex_unlock(mutex_.host_.context(), mutex_.handle_);
  }

 private:
  friend class HostCondition;
  HostMutex& mutex_;
  bool held_ = false;
};

class HostCondition {
 public:
  explicit HostCondition(const Host& host)
      : host_(host), handle_(host.table().condition_new(host.context())) {
    if (handle_ == nullptr) throw std::bad_alloc();
  }
  ~HostCondition() { host_.table().condition_free(host_.context(), handle_); }
  HostCondition(const HostCondition&) = delete;
  HostCondition& operator=(const HostCondition&) = delete;

  // May return without a cause; callers loop.
  void Wait(HostLock& lock, int64_t deadline_ns) {
    host_.table().condition_wait(host_.context(), handle_, lock.mutex_.handle_,
                                 deadline_ns);
  }
  void NotifyAll() {
    host_.table().condition_notify_all(host_.context(), handle_);
  }

 private:
  const Host& host_;
  const muonshard_condition handle_;
};

}  // namespace muonshard::plugins

#endif  // PLUGINS_SUPPORT_HOST_H_
