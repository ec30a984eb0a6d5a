#include "plugins/loopback/injection.h"

#include <new>
#include <utility>

#include "plugins/loopback/group.h"

namespace muonshard::loopback {
namespace {

std::string Text(const Place& place) {
  return "operation " + std::to_string(place.operation) + " (" + place.what +
         ")";
}

// What a task that aborts a group needs.
struct AbortOrder {
  std::shared_ptr<Communicator> communicator;
  Outcome reason;
};

void AbortAsOrdered(void* argument) noexcept {
  const std::unique_ptr<AbortOrder> order(static_cast<AbortOrder*>(argument));
  Domain& domain = *order->communicator->domain();
  HostLock lock(domain.mutex());
  order->communicator->Abort(order->reason);
  domain.Settle(lock);
}

}  // namespace

Place PlaceOf(const Work& work) {
  const Communicator& communicator = *work.communicator;
  return {.program_rank = communicator.identity().program_rank,
          .operation = work.fate.operation,
          .what = KindName(work.call.kind) + " " + Quoted(work.call.label) +
                  " of group " + Quoted(communicator.group()->name())};
}

void Kill(Laboratory& laboratory, const Place& place) {
  if (laboratory.DeathOf(place.program_rank) != nullptr) return;
  laboratory.Die(place.program_rank,
                 {.code = MUONSHARD_E_ABORTED,
                  .text = "rank " + std::to_string(place.program_rank) +
                          " died by a fault at " + Text(place)});
  for (Communicator* communicator :
       laboratory.CommunicatorsOf(place.program_rank)) {
    communicator->group()->MemberDied(communicator->rank());
  }
}

void Delay(HostLock& lock, Domain& domain, int64_t ns) {
  HostCondition nobody_notifies(domain.host());
  const int64_t deadline_ns = domain.host().Now() + ns;
  while (domain.host().Now() < deadline_ns) {
    nobody_notifies.Wait(lock, deadline_ns);
  }
}

void AbortFromAnotherTask(HostLock& lock,
                          const std::shared_ptr<Communicator>& communicator,
                          const Place& place) {
  auto order = std::make_unique<AbortOrder>(AbortOrder{
      communicator,
      {.code = MUONSHARD_E_ABORTED,
       .text = "rank " + std::to_string(place.program_rank) +
               " of the world aborted the group by a fault at " + Text(place),
       .rank = communicator->rank()}});
  Domain& domain = *communicator->domain();
  lock.Unlock();
  const muonshard_task task =
      domain.host().StartTask("loopback fault", &AbortAsOrdered, order.get());
  lock.Lock();
  if (task == nullptr) {
    communicator->Abort(order->reason);
    return;
  }
  order.release();  // Of the task from here on.
  domain.Retire(task);
}

Outcome BeginOperation(HostLock& lock, Domain& domain, Laboratory& laboratory,
                       int32_t program_rank, const std::string& what,
                       Fate* fate) {
  const auto death = [&]() -> Outcome {
    const Outcome* const died = laboratory.DeathOf(program_rank);
    return died == nullptr ? Outcome() : *died;
  };
  if (!death().ok()) return death();
  *fate = laboratory.NextOperation(program_rank);
  if (fate->late_ns > 0) Delay(lock, domain, fate->late_ns);
  if (fate->dies_before) {
    Kill(laboratory, {program_rank, fate->operation, what});
  }
  if (!death().ok()) return death();
  if (fate->no_memory) throw std::bad_alloc();
  return {};
}

}  // namespace muonshard::loopback
