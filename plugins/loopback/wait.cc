#include "plugins/loopback/wait.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "plugins/loopback/communicator.h"
#include "plugins/loopback/deadlock.h"
#include "plugins/loopback/domain.h"
#include "plugins/loopback/group.h"

namespace muonshard::loopback {
namespace {

constexpr int64_t kNanosecondsPerMillisecond = 1'000'000;

// Whether some peer has begun what lacks a post of `task`. If none has, nobody
// waits for it.
bool IsLacked(Domain& domain, uint64_t task) {
  const auto communicators = domain.CommunicatorsOf(task);
  return std::any_of(
      communicators.begin(), communicators.end(),
      [](const std::shared_ptr<Communicator>& communicator) {
        return communicator->group()->MayLack(communicator->rank());
      });
}

// The tasks whose posts `work` lacks, in rank order.
std::vector<uint64_t> LackedTasks(const Work& work) {
  const Group& group = *work.communicator->group();
  std::vector<uint64_t> tasks;
  for (const int32_t rank : group.Lacking(work)) {
    const Communicator* const member = group.member(rank);
    tasks.push_back(member == nullptr ? 0 : member->poster());
  }
  return tasks;
}

std::string WorldRank(const Communicator& communicator) {
  return "rank " + std::to_string(communicator.identity().program_rank);
}

// "rank 0 waits for operation 3 (AllReduce "x") of group "world", which lacks
// rank 1". Ranks of the world, because a cycle may go through several groups.
std::string DescribeWait(const Work& work, uint64_t lacked_task) {
  const Group& group = *work.communicator->group();
  std::string text = WorldRank(*work.communicator) + " waits for " +
                     Describe(work.call, work.sequence, group.name()) +
                     ", which lacks ";
  for (const int32_t rank : group.Lacking(work)) {
    const Communicator* const member = group.member(rank);
    if (member != nullptr && member->poster() == lacked_task) {
      return text + WorldRank(*member);
    }
  }
  return text + "a rank";
}

// Looks for a deadlock that `task`, which is blocked since just now, has
// closed, breaks all groups in it and says whether there was one.
bool BreakDeadlock(Domain& domain, uint64_t task, int64_t now_ns) {
  // Nearly always nobody waits for this one, and that ends it: otherwise it
  // would take thousands of ranks as long to fall asleep as to do their work.
  if (!IsLacked(domain, task)) return false;
  std::vector<TaskWait> waits;
  std::vector<const Work*> works;
  for (const auto& [blocked_task, blocked] : domain.blocked_tasks()) {
    // Past its deadline a task goes on, even if it has not run since.
    if (blocked.deadline_ns <= now_ns) continue;
    waits.push_back(
        {.task = blocked_task, .lacks = LackedTasks(*blocked.work)});
    works.push_back(blocked.work);
  }
  const ClosedWaits closed = FindClosedWaits(waits);
  if (closed.stuck.empty()) return false;

  std::string text = "deadlock: ";
  const char* separator = "";
  for (size_t i = 0; i < closed.cycle.size(); ++i) {
    const size_t wait = closed.cycle[i];
    const size_t next = closed.cycle[(i + 1) % closed.cycle.size()];
    text += separator + DescribeWait(*works[wait], waits[next].task);
    separator = "; ";
  }
  for (const size_t wait : closed.stuck) {
    works[wait]->communicator->group()->Break(
        {.code = MUONSHARD_E_DEADLOCK,
         .text = text,
         .sequence = works[wait]->sequence});
  }
  return true;
}

// Sleeps until something has changed for `work`, or until a deadline.
void Sleep(HostLock& lock, Work& work, int64_t now_ns, int64_t deadline_ns) {
  Communicator& communicator = *work.communicator;
  Domain& domain = *communicator.domain();
  const int64_t poll_ns =
      static_cast<int64_t>(communicator.identity().options.poll_ms) *
      kNanosecondsPerMillisecond;
  const bool counts = deadline_ns == kNever || deadline_ns - now_ns >= poll_ns;
  const uint64_t task = domain.host().CurrentTask();
  if (counts) {
    domain.blocked_tasks()[task] = {&work, deadline_ns};
    if (BreakDeadlock(domain, task, now_ns)) {
      domain.blocked_tasks().erase(task);
      return;
    }
  }
  communicator.condition().Wait(
      lock, std::min(deadline_ns, communicator.earliest_deadline()));
  if (counts) domain.blocked_tasks().erase(task);
}

}  // namespace

Outcome WaitForWork(Work& work, int64_t deadline_ns) {
  Communicator& communicator = *work.communicator;
  Group& group = *communicator.group();
  Domain& domain = *communicator.domain();
  HostLock lock(domain.mutex());
  communicator.WaitBegins();
  while (true) {
    domain.Settle(lock);
    if (work.ended) break;
    if (group.RunOneShare(lock, communicator.rank())) continue;
    if (communicator.CheckDeadlines()) continue;
    const int64_t now_ns = domain.host().Now();
    if (deadline_ns <= now_ns) break;
    Sleep(lock, work, now_ns, deadline_ns);
  }
  communicator.WaitEnds();
  domain.Settle(lock);
  if (!work.ended) return {.code = MUONSHARD_WAIT_EXPIRED};
  return work.outcome;
}

}  // namespace muonshard::loopback
