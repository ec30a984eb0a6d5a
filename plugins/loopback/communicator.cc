#include "plugins/loopback/communicator.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <set>
#include <span>
#include <utility>

#include "plugins/loopback/checks.h"
#include "plugins/loopback/group.h"

namespace muonshard::loopback {
namespace {

// Of a cache line, and enough for any vector register.
constexpr std::align_val_t kAlignment{kMemoryAlignment};

}  // namespace

Communicator::Communicator(std::shared_ptr<Domain> domain,
                           std::shared_ptr<Group> group,
                           const Identity& identity)
    : domain_(std::move(domain)),
      group_(std::move(group)),
      identity_(identity),
      condition_(domain_->host()),
      service_condition_(domain_->host()),
      poster_(identity.program),
      sent_bytes_(identity.rank, group_->size()) {
  laboratory().CommunicatorMade();
}

Communicator::~Communicator() {
  laboratory().CommunicatorGone();
  while (!memory_.empty()) {
    const Outcome freed = FreeMemory(memory_.begin()->first);
    if (!freed.ok()) domain_->host().LogError(freed.text);
  }
}

Outcome Communicator::death() const {
  const Outcome* const death = laboratory().DeathOf(identity_.program_rank);
  if (death == nullptr) return {};
  Outcome outcome = *death;
  outcome.rank = rank();
  return outcome;
}

Outcome Communicator::failure() const {
  return dead() ? death() : group_->failure();
}

void Communicator::Abort(const Outcome& reason) {
  if (dead() || group_->broken()) return;
  // The program passes on what it was told of another group, or has a reason of
  // its own.
  std::set<int32_t> culprits;
  for (const Communicator* told :
       laboratory().CommunicatorsOf(identity_.program_rank)) {
    const std::set<int32_t>& named = told->group()->culprits();
    culprits.insert(named.begin(), named.end());
  }
  if (culprits.empty()) culprits = {identity_.program_rank};
  group_->Break(reason, culprits);
}

void Communicator::Leave(HostLock& lock) {
  group_->Leave(rank(), unfinished_ > 0);
  domain_->Settle(lock);
  stop_ = true;
  service_condition_.NotifyAll();
  if (domain_->InAction()) {
    // What is still to run may be behind the action that this is.
    abandoned_ = true;
    if (service_ == Service::kRunning) domain_->Retire(service_task_);
    return;
  }
  while (unfinished_ > 0 || service_ == Service::kStarting) {
    condition_.Wait(lock, kNever);
    domain_->Settle(lock);
  }
  if (service_ == Service::kRunning) {
    lock.Unlock();
    domain_->host().JoinTask(service_task_);
    lock.Lock();
  }
  domain_->JoinRetired(lock);
}

void Communicator::WorkPosted(Work& work, uint64_t task) {
  ++unfinished_;
  if (work.call.deadline_ns != kNever) {
    deadlines_.emplace(work.call.deadline_ns, &work);
  }
  several_post_ = several_post_ || (posted_ && task != poster_);
  if (!posted_ && task != poster_) {
    domain_->AddPoster(task, shared_from_this());
  }
  posted_ = true;
  poster_ = task;
}

void Communicator::WorkEnded(Work& work) {
  --unfinished_;
  const auto [begin, end] = deadlines_.equal_range(work.call.deadline_ns);
  const auto entry = std::find_if(
      begin, end, [&](const auto& e) { return e.second == &work; });
  if (entry != end) deadlines_.erase(entry);
  if (work.outcome.ok()) {
    ++calls_[work.call.kind];
    sent_bytes_.Add(work.call);
  }
  condition_.NotifyAll();
}

int64_t Communicator::earliest_deadline() const {
  // What is left of a broken group, or of a dead rank, ends as soon as it can,
  // deadline or not.
  const bool none = deadlines_.empty() || group_->broken() || dead();
  return none ? kNever : deadlines_.begin()->first;
}

bool Communicator::CheckDeadlines() {
  if (earliest_deadline() == kNever) return false;
  if (earliest_deadline() > domain_->host().Now()) return false;
  group_->BreakAtDeadline(*deadlines_.begin()->second);
  return true;
}

void Communicator::WaitEnds() {
  --waiters_;
  if (group_->HasUnclaimedShares()) CallService();
}

void Communicator::CallService() {
  if (service_ != Service::kNone || stop_) {
    service_condition_.NotifyAll();
    return;
  }
  service_ = Service::kStarting;
  domain_->Later([self = shared_from_this()] { self->StartService(); });
}

void Communicator::WatchDeadlines() {
  if (service_ != Service::kRunning ||
      earliest_deadline() < service_wakes_ns_) {
    CallService();
  }
}

void Communicator::StartService() {
  auto self =
      std::make_unique<std::shared_ptr<Communicator>>(shared_from_this());
  const muonshard_task task =
      domain_->host().StartTask("loopback service", &Serve, self.get());
  HostLock lock(domain_->mutex());
  if (task == nullptr) {
    service_ = Service::kNone;
    stop_ = true;
    Abort({.code = MUONSHARD_E_SYSTEM,
           .text = "rank " + std::to_string(rank()) + " of group " +
                   Quoted(group_->name()) + " cannot start a task",
           .rank = rank()});
  } else {
    self.release();  // Of the task from here on.
    service_ = Service::kRunning;
    service_task_ = task;
    if (abandoned_) domain_->Retire(task);
  }
  condition_.NotifyAll();
}

void Communicator::Serve(void* argument) noexcept {
  const std::unique_ptr<std::shared_ptr<Communicator>> self(
      static_cast<std::shared_ptr<Communicator>*>(argument));
  (*self)->ServeUntilStopped();
}

void Communicator::ServeUntilStopped() {
  HostLock lock(domain_->mutex());
  while (!stop_) {
    domain_->Settle(lock);
    if (stop_) break;
    if (group_->RunOneShare(lock, rank())) continue;
    if (CheckDeadlines()) continue;
    service_wakes_ns_ = earliest_deadline();
    service_condition_.Wait(lock, service_wakes_ns_);
  }
  domain_->Settle(lock);
}

void Communicator::Count(muonshard_counters* counters) const {
  std::copy(std::begin(calls_), std::end(calls_), counters->calls);
  sent_bytes_.Fill(
      std::span(counters->bytes_sent_to, static_cast<size_t>(group_->size())));
}

void* Communicator::NewMemory(uint64_t bytes) {
  void* const memory =
      laboratory().checks()
          ? NewGuardedMemory(bytes)
          :
          operator new(std::max<uint64_t>(bytes, 1), kAlignment);
  std::memset(memory, 0, bytes);
  memory_.emplace(memory, bytes);
  return memory;
}

Outcome Communicator::FreeMemory(void* memory) {
  const uint64_t bytes = memory_.extract(memory).mapped();
  if (!laboratory().checks()) {
    operator delete(memory, kAlignment);
    return {};
  }
  Outcome outcome = CheckGuards(memory, bytes);
  outcome.rank = rank();
  FreeGuardedMemory(memory);
  return outcome;
}

}  // namespace muonshard::loopback
