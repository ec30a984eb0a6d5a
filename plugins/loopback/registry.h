// Where the ranks of one process meet: a table inside the shared object.
//
// It is the only state that is not behind a handle, because loopback connects
// ranks of one process, which may each have opened the plugin for themselves.
// Two copies of the shared object have a table each and share nothing.
//
// Threads      Everything from any task. The table is guarded by a flag that
//              is spun on, not by a mutex of a host: hosts differ, the table
//              is one. What is done under it is a look-up in a short list and
//              calls no host, so a fiber never gives up its thread there and
//              others spin for nanoseconds.

#ifndef PLUGINS_LOOPBACK_REGISTRY_H_
#define PLUGINS_LOOPBACK_REGISTRY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/loopback/domain.h"

namespace muonshard::loopback {

class Group;

class Registry {
 public:
  static Registry& Get();

  // The domain of the host's context, made on first use.
  std::shared_ptr<Domain> DomainOf(const muonshard_host& host);

  // Opens `group`, which is of `domain`, to the other ranks and returns the
  // token by which they find it: no other group of this or another process has
  // it.
  std::string Publish(std::shared_ptr<Group> group, const Domain& domain);
  // Null if it was withdrawn.
  std::shared_ptr<Group> Find(const std::string& token);
  void Withdraw(const Group* group);

  // Whether `token` is of this process and this copy of the shared object.
  bool IsOwn(const std::string& token) const;
  // Whether it is, and of `domain`. A rank looks before it finds, since a share
  // in a group of another runtime might be what keeps it alive past that.
  bool IsOf(const std::string& token, const Domain& domain) const;

 private:
  Registry() = default;
  std::string TokenPrefix() const;
  std::string TokenPrefix(const Domain& domain) const;

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  uint64_t published_ = 0;
  std::vector<std::pair<void*, std::weak_ptr<Domain>>> domains_;
  std::vector<std::pair<std::string, std::shared_ptr<Group>>> groups_;
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_REGISTRY_H_
