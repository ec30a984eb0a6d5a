#include "plugins/loopback/registry.h"

#include <unistd.h>

#include <algorithm>

namespace muonshard::loopback {
namespace {

class FlagLock {
 public:
  explicit FlagLock(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~FlagLock() { flag_.clear(std::memory_order_release); }
  FlagLock(const FlagLock&) = delete;
  FlagLock& operator=(const FlagLock&) = delete;

 private:
  std::atomic_flag& flag_;
};

}  // namespace

Registry& Registry::Get() {
  // Never destroyed: groups may be in use until the process has ended.
  static Registry* const registry = new Registry;
  return *registry;
}

std::shared_ptr<Domain> Registry::DomainOf(const muonshard_host& host) {
  // Made outside the flag, since that calls the host. Declared first, so that
  // one that is not needed is freed outside it too.
  const auto made = std::make_shared<Domain>(host);
  const FlagLock lock(busy_);
  std::erase_if(domains_, [](const auto& e) { return e.second.expired(); });
  for (const auto& [context, domain] : domains_) {
    if (context != host.context) continue;
    if (std::shared_ptr<Domain> found = domain.lock(); found != nullptr) {
      return found;
    }
  }
  domains_.emplace_back(host.context, made);
  return made;
}

std::string Registry::Publish(std::shared_ptr<Group> group,
                              const Domain& domain) {
  const FlagLock lock(busy_);
  std::string token = TokenPrefix(domain) + std::to_string(published_++);
  groups_.emplace_back(token, std::move(group));
  return token;
}

std::shared_ptr<Group> Registry::Find(const std::string& token) {
  const FlagLock lock(busy_);
  for (const auto& [name, group] : groups_) {
    if (name == token) return group;
  }
  return nullptr;
}

void Registry::Withdraw(const Group* group) {
  // Moved out under the flag and freed after it, since that calls the host.
  std::shared_ptr<Group> withdrawn;
  const FlagLock lock(busy_);
  const auto entry =
      std::find_if(groups_.begin(), groups_.end(),
                   [&](const auto& e) { return e.second.get() == group; });
  if (entry == groups_.end()) return;
  withdrawn = std::move(entry->second);
  groups_.erase(entry);
}

bool Registry::IsOwn(const std::string& token) const {
  return token.rfind(TokenPrefix(), 0) == 0;
}

bool Registry::IsOf(const std::string& token, const Domain& domain) const {
  return token.rfind(TokenPrefix(domain), 0) == 0;
}

std::string Registry::TokenPrefix() const {
  // The address tells the copies of one process apart.
  return std::to_string(getpid()) + ":" +
         std::to_string(reinterpret_cast<uintptr_t>(this)) + ":";
}

std::string Registry::TokenPrefix(const Domain& domain) const {
  return TokenPrefix() + std::to_string(reinterpret_cast<uintptr_t>(&domain)) +
         ":";
}

}  // namespace muonshard::loopback
