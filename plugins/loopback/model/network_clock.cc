#include "plugins/loopback/model/network_clock.h"

#include <cmath>
#include <utility>
#include <vector>

#include "plugins/loopback/model/algorithms.h"

namespace muonshard::loopback {
namespace {

// A simulated clock stands still while a task only reads it; any other has
// moved before a task has read it so often.
bool RunsByItself(const Host& host) {
  constexpr int kReads = 1000;
  const int64_t first_ns = host.Now();
  for (int i = 0; i < kReads; ++i) {
    if (host.Now() != first_ns) return true;
  }
  return false;
}

}  // namespace

Outcome NetworkClock::Open(const std::shared_ptr<Domain>& domain,
                           const std::string& text, bool makes_messages,
                           std::shared_ptr<NetworkClock>* clock) {
  if (text.empty()) return {};
  Network network;
  if (Outcome bad = ReadNetwork(text, &network); !bad.ok()) return bad;
  if (makes_messages) {
    return {.code = MUONSHARD_E_ARGUMENT,
            .text =
                "loopback network: no data moves, so there are no messages "
                "to check or to spoil"};
  }
  if (RunsByItself(domain->host())) {
    return {.code = MUONSHARD_E_UNSUPPORTED,
            .text =
                "loopback network: want a simulated runtime, whose clock "
                "moves when all tasks wait; this one's runs by itself"};
  }
  // Declared first, so that one that is not needed is freed without the mutex.
  auto opened = std::make_shared<NetworkClock>(domain, text, network);
  HostLock lock(domain->mutex());
  std::weak_ptr<NetworkClock>& known = domain->networks()[text];
  if (std::shared_ptr<NetworkClock> found = known.lock(); found != nullptr) {
    opened.swap(found);
  }
  known = opened;
  ++opened->plugins_;
  *clock = opened;
  return {};
}

NetworkClock::NetworkClock(std::shared_ptr<Domain> domain, std::string text,
                           const Network& network)
    : domain_(std::move(domain)),
      text_(std::move(text)),
      links_(network),
      engine_(links_.Rates()),
      origin_ns_(domain_->host().Now()),
      condition_(domain_->host()) {}

void NetworkClock::Close(HostLock& lock) {
  if (--plugins_ > 0) return;
  // Whoever opens the network from here on has one of its own: this one's task
  // is joined without the mutex, and must not be needed again.
  domain_->networks().erase(text_);
  stop_ = true;
  domain_->Settle(lock);
  condition_.NotifyAll();
  while (starting_) condition_.Wait(lock, kNever);
  if (task_ == nullptr) return;
  const muonshard_task ended = std::exchange(task_, nullptr);
  lock.Unlock();
  domain_->host().JoinTask(ended);
  lock.Lock();
}

Outcome NetworkClock::CheckRanks(int32_t rank, int32_t size) const {
  const int32_t ranks = links_.network().ranks();
  if (rank >= 0 && rank < ranks && size <= ranks) return {};
  return {.code = MUONSHARD_E_ARGUMENT,
          .text = "a new group: want ranks of a network of " +
                  std::to_string(ranks) + ", got rank " + std::to_string(rank) +
                  " of the world in a group of " + std::to_string(size)};
}

double NetworkClock::Now() const {
  return static_cast<double>(domain_->host().Now() - origin_ns_);
}

bool NetworkClock::Start(std::span<const int32_t> ranks,
                         std::span<const Call* const> calls, const void* owner,
                         Ended ended) {
  std::vector<Stage> stages = StagesOf(links_, ranks, calls);
  if (stages.empty()) return false;
  operations_.emplace(started_, Operation{owner, std::move(ended)});
  engine_.Start(started_++, std::move(stages), Now());
  condition_.NotifyAll();
  if (task_ == nullptr && !starting_) {
    starting_ = true;
    domain_->Later([self = shared_from_this()] { self->StartTask(); });
  }
  return true;
}

void NetworkClock::Cancel(const void* owner) {
  const double now_ns = Now();
  std::erase_if(operations_, [&](const auto& entry) {
    if (entry.second.owner != owner) return false;
    engine_.Cancel(entry.first, now_ns);
    return true;
  });
  condition_.NotifyAll();  // What is left may end sooner.
}

void NetworkClock::StartTask() {
  auto self =
      std::make_unique<std::shared_ptr<NetworkClock>>(shared_from_this());
  const muonshard_task task =
      domain_->host().StartTask("loopback network", &Run, self.get());
  HostLock lock(domain_->mutex());
  starting_ = false;
  condition_.NotifyAll();
  if (task != nullptr) {
    self.release();  // Of the task from here on.
    task_ = task;
    return;
  }
  const Outcome failed{.code = MUONSHARD_E_SYSTEM,
                       .text = "the network cannot start a task"};
  for (const auto& [id, operation] : std::exchange(operations_, {})) {
    engine_.Cancel(id, Now());
    operation.ended(failed);
  }
}

void NetworkClock::Run(void* argument) noexcept {
  const std::unique_ptr<std::shared_ptr<NetworkClock>> self(
      static_cast<std::shared_ptr<NetworkClock>*>(argument));
  (*self)->RunUntilStopped();
}

void NetworkClock::RunUntilStopped() {
  HostLock lock(domain_->mutex());
  while (!stop_) {
    EndOperations();
    domain_->Settle(lock);
    const double next_ns = engine_.NextChange();
    if (stop_ || next_ns <= Now()) continue;
    condition_.Wait(
        lock, next_ns == FlowEngine::kNever
                  ? kNever
                  : origin_ns_ + static_cast<int64_t>(std::ceil(next_ns)));
  }
  domain_->Settle(lock);
}

void NetworkClock::EndOperations() {
  for (const uint64_t id : engine_.Advance(Now())) {
    const auto found = operations_.find(id);
    if (found == operations_.end()) continue;  // One before has broken it.
    const Ended ended = std::move(found->second.ended);
    operations_.erase(found);
    ended({});
  }
}

}  // namespace muonshard::loopback
