// One rank's place in a group: what a muonshard_comm stands for.
//
// Guarded by the domain's mutex, but for what is const.
//
// The service task of a communicator starts when it is first needed: to run
// shares that no waiting task runs, and to watch the deadlines of operations
// that nobody waits for. `Leave` joins it.

#ifndef PLUGINS_LOOPBACK_COMMUNICATOR_H_
#define PLUGINS_LOOPBACK_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "plugins/loopback/domain.h"
#include "plugins/loopback/host.h"
#include "plugins/loopback/laboratory.h"
#include "plugins/loopback/options.h"
#include "plugins/loopback/outcome.h"
#include "plugins/loopback/shares.h"
#include "plugins/loopback/work.h"

namespace muonshard::loopback {

class Group;
class NetworkClock;

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  // What the makers of a communicator know of its rank.
  struct Identity {
    int32_t rank = 0;
    int32_t program_rank = 0;  // In the world, for reports.
    uint64_t program = 0;      // The task that runs the rank's code.
    Options options;
    std::shared_ptr<Laboratory> laboratory;  // Of its plugin.
    std::shared_ptr<NetworkClock> network;   // Null: data is moved.
  };

  Communicator(std::shared_ptr<Domain> domain, std::shared_ptr<Group> group,
               const Identity& identity);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::shared_ptr<Domain>& domain() const { return domain_; }
  const std::shared_ptr<Group>& group() const { return group_; }
  const Identity& identity() const { return identity_; }
  int32_t rank() const { return identity_.rank; }
  Laboratory& laboratory() const { return *identity_.laboratory; }

  // The rest wants the mutex held, but for memory.

  // Whether a fault has ended its rank, to which no peer listens any more.
  bool dead() const {
    return laboratory().DeathOf(identity_.program_rank) != nullptr;
  }
  Outcome death() const;
  // What its calls return: OK, the fault that its rank died of, or what broke
  // the group.
  Outcome failure() const;
  // Breaks the group, unless the rank is dead.
  void Abort(const Outcome& reason);

  // Leaves the group and returns when no buffer of this rank is in use and the
  // service task has ended.
  void Leave(HostLock& lock);

  // The book of works that have not ended.
  void WorkPosted(Work& work, uint64_t task);
  void WorkEnded(Work& work);
  // Of the first operation to give up, or kNever.
  int64_t earliest_deadline() const;
  // Breaks the group if an operation's deadline has passed, and says so.
  bool CheckDeadlines();

  // Between the two a task waits for a work of this communicator.
  void WaitBegins() { ++waiters_; }
  // Hands what the waiting task could have run to the service task.
  void WaitEnds();
  bool has_waiters() const { return waiters_ > 0; }
  HostCondition& condition() { return condition_; }

  // Wakes the service task, and starts it before that.
  void CallService();
  // Wakes it only if it sleeps past the earliest deadline.
  void WatchDeadlines();

  // The task whose posts this rank's peers wait for; 0 if several tasks have
  // posted, so that none can be told to be the one, or the rank is dead.
  uint64_t poster() const { return several_post_ || dead() ? 0 : poster_; }

  uint64_t NextSplit() { return splits_++; }

  // Fills `counters`, which has room for all ranks.
  void Count(muonshard_counters* counters) const;

  // Memory that lives until it is freed or the communicator is; under `checks`
  // between guards, and what freeing finds of them is its outcome. Called by
  // one task at a time, without the mutex.
  void* NewMemory(uint64_t bytes);
  Outcome FreeMemory(void* memory);

 private:
  enum class Service { kNone, kStarting, kRunning };

  static void Serve(void* argument) noexcept;
  void ServeUntilStopped();
  void StartService();

  const std::shared_ptr<Domain> domain_;
  const std::shared_ptr<Group> group_;
  const Identity identity_;
  // Wakes tasks that wait for works, for ranks or for the service to start.
  HostCondition condition_;
  HostCondition service_condition_;

  uint64_t poster_;
  bool posted_ = false;
  bool several_post_ = false;
  int32_t waiters_ = 0;
  int32_t unfinished_ = 0;
  std::multimap<int64_t, Work*> deadlines_;  // Of works that have not ended.
  uint64_t splits_ = 0;
  uint64_t calls_[MUONSHARD_OPERATION_KINDS] = {};
  SentBytes sent_bytes_;

  Service service_ = Service::kNone;
  muonshard_task service_task_ = nullptr;
  int64_t service_wakes_ns_ = 0;
  bool stop_ = false;
  // The rank left inside an action, and so without a wait for its service.
  bool abandoned_ = false;

  std::map<void*, uint64_t> memory_;  // With its size in bytes.
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_COMMUNICATOR_H_
