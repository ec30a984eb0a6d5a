#include "plugins/loopback/post.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>
#include <utility>

#include "plugins/loopback/domain.h"
#include "plugins/loopback/group.h"
#include "plugins/loopback/injection.h"

namespace muonshard::loopback {
namespace {

// Hears of one producer of a work; freed when it has.
struct Listener {
  std::shared_ptr<Work> work;
};

void ProducerEnded(void* argument, muonshard_code code,
                   const char* text) noexcept {
  const std::unique_ptr<Listener> listener(static_cast<Listener*>(argument));
  Work& work = *listener->work;
  const std::shared_ptr<Domain> domain = work.communicator->domain();
  Group& group = *work.communicator->group();
  HostLock lock(domain->mutex());
  if (code == MUONSHARD_OK) {
    group.ProducerEnded(work);
  } else {
    const int32_t rank = work.communicator->rank();
    work.communicator->Abort(
        {.code = code,
         .text = "a producer of " +
                 Describe(work.call, work.sequence, group.name()) +
                 " failed on " + group.Names({rank}) + ": " +
                 (text == nullptr ? "" : text),
         .rank = rank,
         .sequence = work.sequence});
  }
  domain->Settle(lock);
}

Outcome Check(std::span<const PostRequest> requests, std::vector<Call>* calls,
              uint32_t* failed) {
  for (const PostRequest& request : requests) {
    *failed = static_cast<uint32_t>(calls->size());
    Communicator& communicator = *request.communicator;
    Call call;
    Outcome made = MakeCall(*request.operation, communicator.rank(),
                            communicator.group()->size(), &call);
    if (!made.ok()) return made;
    HostLock lock(communicator.domain()->mutex());
    if (Outcome failure = communicator.failure(); !failure.ok()) {
      return failure;
    }
    calls->push_back(std::move(call));
  }
  return {};
}

// Counts the operations and makes their works, each with its fate.
void MakeWorks(std::span<const PostRequest> requests, std::vector<Call> calls,
               std::vector<std::shared_ptr<Work>>* works) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::shared_ptr<Communicator>& communicator =
        requests[i].communicator;
    Fate fate;
    {
      HostLock lock(communicator->domain()->mutex());
      fate = communicator->laboratory().NextOperation(
          communicator->identity().program_rank);
    }
    works->push_back(std::make_shared<Work>(
        communicator, std::move(calls[i]),
        static_cast<int32_t>(requests[i].operation->ready_count), fate));
  }
}

// Lets happen what comes before the first operation. An operation that its rank
// does not live to post is an error only where none was posted before it: those
// have works, which the caller must get.
Outcome BeginFaults(std::span<const std::shared_ptr<Work>> works,
                    uint32_t* failed) {
  int64_t late_ns = 0;
  for (const std::shared_ptr<Work>& work : works) {
    late_ns = std::max(late_ns, work->fate.late_ns);
  }
  *failed = 0;
  for (const std::shared_ptr<Work>& work : works) {
    if (work->fate.no_memory) throw std::bad_alloc();
    ++*failed;
  }
  *failed = 0;
  if (works.empty()) return {};
  const Communicator& communicator = *works[0]->communicator;
  Domain& domain = *communicator.domain();
  HostLock lock(domain.mutex());
  if (late_ns > 0) Delay(lock, domain, late_ns);
  if (works[0]->fate.dies_before) {
    Kill(communicator.laboratory(), PlaceOf(*works[0]));
    domain.Settle(lock);
  }
  return communicator.death();
}

}  // namespace

Outcome Post(std::span<const PostRequest> requests,
             std::vector<std::shared_ptr<Work>>* works, uint32_t* failed) {
  std::vector<Call> calls;
  if (Outcome bad = Check(requests, &calls, failed); !bad.ok()) return bad;
  MakeWorks(requests, std::move(calls), works);
  if (Outcome died = BeginFaults(*works, failed); !died.ok()) return died;
  std::vector<std::unique_ptr<Listener>> listeners;
  for (const std::shared_ptr<Work>& work : *works) {
    for (int32_t i = 0; i < work->unready; ++i) {
      listeners.push_back(std::make_unique<Listener>(Listener{work}));
    }
  }
  for (const std::shared_ptr<Work>& work : *works) {
    HostLock lock(work->communicator->domain()->mutex());
    if (work->fate.dies_before) {
      Kill(work->communicator->laboratory(), PlaceOf(*work));
    }
    work->communicator->group()->Post(work);
  }
  // An event that has happened calls back from here.
  auto listener = listeners.begin();
  for (const PostRequest& request : requests) {
    const muonshard_host& host = request.communicator->domain()->host().table();
    for (uint32_t i = 0; i < request.operation->ready_count; ++i) {
      host.event_then(host.context,
                      static_cast<muonshard_event>(request.operation->ready[i]),
                      &ProducerEnded, (listener++)->release());
    }
  }
  for (const std::shared_ptr<Work>& work : *works) {
    Domain& domain = *work->communicator->domain();
    HostLock lock(domain.mutex());
    domain.Settle(lock);
    if (work->fate.aborts) {
      AbortFromAnotherTask(lock, work->communicator, PlaceOf(*work));
    }
    if (work->ended || work->call.deadline_ns == kNever) continue;
    work->communicator->WatchDeadlines();
    domain.Settle(lock);
  }
  return {};
}

}  // namespace muonshard::loopback
