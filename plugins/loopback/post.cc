#include "plugins/loopback/post.h"

#include <cstddef>
#include <string>
#include <utility>

#include "plugins/loopback/domain.h"
#include "plugins/loopback/group.h"

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
    group.Break({.code = code,
                 .text = "a producer of " +
                         Describe(work.call, work.sequence, group.name()) +
                         " failed on rank " + std::to_string(rank) + ": " +
                         (text == nullptr ? "" : text),
                 .rank = rank,
                 .sequence = work.sequence});
  }
  domain->Settle(lock);
}

Outcome Check(std::span<const PostRequest> requests,
              std::vector<std::shared_ptr<Work>>* works, uint32_t* failed) {
  for (const PostRequest& request : requests) {
    *failed = static_cast<uint32_t>(works->size());
    Communicator& communicator = *request.communicator;
    Call call;
    Outcome made = MakeCall(*request.operation, communicator.rank(),
                            communicator.group()->size(), &call);
    if (!made.ok()) return made;
    {
      HostLock lock(communicator.domain()->mutex());
      if (communicator.group()->broken()) {
        return communicator.group()->failure();
      }
    }
    works->push_back(std::make_shared<Work>(
        request.communicator, std::move(call),
        static_cast<int32_t>(request.operation->ready_count)));
  }
  return {};
}

}  // namespace

Outcome Post(std::span<const PostRequest> requests,
             std::vector<std::shared_ptr<Work>>* works, uint32_t* failed) {
  if (Outcome bad = Check(requests, works, failed); !bad.ok()) return bad;
  std::vector<std::unique_ptr<Listener>> listeners;
  for (const std::shared_ptr<Work>& work : *works) {
    for (int32_t i = 0; i < work->unready; ++i) {
      listeners.push_back(std::make_unique<Listener>(Listener{work}));
    }
  }
  for (const std::shared_ptr<Work>& work : *works) {
    HostLock lock(work->communicator->domain()->mutex());
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
    if (work->ended || work->call.deadline_ns == kNever) continue;
    work->communicator->WatchDeadlines();
    domain.Settle(lock);
  }
  return {};
}

}  // namespace muonshard::loopback
