// Groups that their ranks have freed and that still see off what they sent.
//
// Threads      From any task, also from one that serves a group which is here.

#ifndef PLUGINS_UCX_RETIRED_GROUPS_H_
#define PLUGINS_UCX_RETIRED_GROUPS_H_

#include <memory>
#include <utility>
#include <vector>

#include "plugins/support/host.h"
#include "plugins/ucx/group.h"

namespace muonshard::ucx {

class RetiredGroups {
 public:
  explicit RetiredGroups(const plugins::Host& host) : mutex_(host) {}

  void Add(std::shared_ptr<Group> group) {
    plugins::HostLock lock(mutex_);
    groups_.push_back(std::move(group));
  }

  // Drops those that are done.
  void Collect() {
    std::vector<std::shared_ptr<Group>> done;
    plugins::HostLock lock(mutex_);
    for (auto group = groups_.begin(); group != groups_.end();) {
      if ((*group)->IsDone()) {
        done.push_back(std::move(*group));
        group = groups_.erase(group);
      } else {
        ++group;
      }
    }
    lock.Unlock();
  }

 private:
  plugins::HostMutex mutex_;
  std::vector<std::shared_ptr<Group>> groups_;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_RETIRED_GROUPS_H_
