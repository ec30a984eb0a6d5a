// A host with one task and a clock that moves only when that task waits, and a
// store of its own: enough for everything that one rank can do alone.

#ifndef PLUGINS_LOOPBACK_FAKE_HOST_H_
#define PLUGINS_LOOPBACK_FAKE_HOST_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collectives/plugin_abi.h"

namespace muonshard::loopback {

// Happens when the test says so.
class FakeEvent {
 public:
  muonshard_event handle() { return reinterpret_cast<muonshard_event>(this); }
  void Happen(muonshard_code code, const char* text);

 private:
  friend class FakeHost;
  struct Listener {
    void (*function)(void* argument, muonshard_code code, const char* text);
    void* argument;
  };
  std::vector<Listener> listeners_;
};

class FakeHost {
 public:
  FakeHost();
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  const muonshard_host* host() const { return &host_; }
  const muonshard_store* store() const { return &store_; }

  int64_t now_ns() const { return now_ns_; }
  // Mutexes and conditions that were made and not freed.
  int64_t live_objects() const { return live_objects_; }
  // What fails from now on: making such objects, the store.
  void FailObjects() { objects_fail_ = true; }
  void FailStore() { store_fails_ = true; }
  std::map<std::string, std::string>& values() { return values_; }
  const std::vector<std::string>& lines() const { return lines_; }  // Logged.

 private:
  template <typename Handle>
  Handle NewObject();
  void FreeObject() { --live_objects_; }

  muonshard_host host_ = {};
  muonshard_store store_ = {};
  int64_t now_ns_ = 0;
  int64_t live_objects_ = 0;
  bool objects_fail_ = false;
  bool store_fails_ = false;
  std::map<std::string, std::string> values_;
  std::map<std::string, int64_t> sums_;
  std::vector<std::string> lines_;
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_FAKE_HOST_H_
