// What the groups of one host runtime share: the lock, and what is to be done
// outside it.
//
// One mutex guards the state of all groups of a runtime, because the search
// for deadlocks follows waits from group to group. Data is moved, callbacks
// are called and tasks are started outside it, as actions.
//
// Threads      Everything from any task; methods that say so want the mutex
//              held.
// Memory       Shared by opened plugins, groups and works, so the last of them
//              frees it. Whoever takes the mutex holds a share meanwhile.

#ifndef PLUGINS_LOOPBACK_DOMAIN_H_
#define PLUGINS_LOOPBACK_DOMAIN_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "plugins/loopback/host.h"

namespace muonshard::loopback {

class Communicator;
class NetworkClock;
struct Work;

class Domain {
 public:
  // What a task waits for, where that counts towards a deadlock.
  struct BlockedTask {
    const Work* work;
    int64_t deadline_ns;
  };

  explicit Domain(const muonshard_host& host) : host_(host), mutex_(host_) {}
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  const Host& host() const { return host_; }
  HostMutex& mutex() { return mutex_; }

  // The rest wants the mutex held.

  // Keeps `action` for the next Settle, which calls it without the mutex.
  void Later(std::function<void()> action);

  // Runs all actions, those that they add too, in the order added. Inside an
  // action it does nothing: the Settle around it goes on afterwards. So a
  // chain of operations, each made ready by the end of the one before, takes
  // no stack.
  void Settle(HostLock& lock);

  // Whether the calling task is inside an action.
  bool InAction() const;

  // By task, each of which is in one wait at most.
  std::map<uint64_t, BlockedTask>& blocked_tasks() { return blocked_tasks_; }

  // Keeps which communicators a task posts to, so that a task that falls
  // asleep finds out what its peers still want of it.
  void AddPoster(uint64_t task,
                 const std::shared_ptr<Communicator>& communicator);
  std::vector<std::shared_ptr<Communicator>> CommunicatorsOf(uint64_t task);

  // The networks that plugins are open on, by the text of the option.
  std::map<std::string, std::weak_ptr<NetworkClock>>& networks() {
    return networks_;
  }

  // Keeps a task that was told to end, where it cannot be joined: in an
  // action, which may be running on it.
  void Retire(muonshard_task task) { retired_.push_back(task); }
  // Joins these, unless the caller is inside an action.
  void JoinRetired(HostLock& lock);

 private:
  const Host host_;
  HostMutex mutex_;
  std::deque<std::function<void()>> actions_;
  std::vector<uint64_t> settling_tasks_;
  std::map<uint64_t, BlockedTask> blocked_tasks_;
  std::unordered_map<uint64_t, std::vector<std::weak_ptr<Communicator>>>
      posters_;
  std::map<std::string, std::weak_ptr<NetworkClock>> networks_;
  std::vector<muonshard_task> retired_;
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_DOMAIN_H_
