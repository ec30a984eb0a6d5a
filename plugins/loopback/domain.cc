#include "plugins/loopback/domain.h"

#include <algorithm>
#include <utility>

namespace muonshard::loopback {

void Domain::Later(std::function<void()> action) {
  actions_.push_back(std::move(action));
}

void Domain::Settle(HostLock& lock) {
  if (actions_.empty() || InAction()) return;
  const uint64_t task = host_.CurrentTask();
  settling_tasks_.push_back(task);
  while (!actions_.empty()) {
    std::function<void()> action = std::move(actions_.front());
    actions_.pop_front();
    lock.Unlock();
    action();
    action = nullptr;
    lock.Lock();
  }
  settling_tasks_.erase(
      std::find(settling_tasks_.begin(), settling_tasks_.end(), task));
}

bool Domain::InAction() const {
  return !settling_tasks_.empty() &&
         std::find(settling_tasks_.begin(), settling_tasks_.end(),
                   host_.CurrentTask()) != settling_tasks_.end();
}

void Domain::AddPoster(uint64_t task,
                       const std::shared_ptr<Communicator>& communicator) {
  std::vector<std::weak_ptr<Communicator>>& known = posters_[task];
  std::erase_if(known, [](const auto& entry) { return entry.expired(); });
  known.push_back(communicator);
}

std::vector<std::shared_ptr<Communicator>> Domain::CommunicatorsOf(
    uint64_t task) {
  std::vector<std::shared_ptr<Communicator>> communicators;
  const auto found = posters_.find(task);
  if (found == posters_.end()) return communicators;
  for (const std::weak_ptr<Communicator>& entry : found->second) {
    if (auto alive = entry.lock(); alive != nullptr) {
      communicators.push_back(std::move(alive));
    }
  }
  return communicators;
}

void Domain::JoinRetired(HostLock& lock) {
  if (retired_.empty() || InAction()) return;
  const std::vector<muonshard_task> tasks = std::exchange(retired_, {});
  lock.Unlock();
  for (muonshard_task task : tasks) host_.JoinTask(task);
  lock.Lock();
}

}  // namespace muonshard::loopback
