// One rank's end of a group: its operations, what has come from its peers, and
// what broke it.
//
// Ordering     Operations of all ranks run one after another, as posted.
//              Messages of a pair meet in order and run beside later posts.
// Threads      `mutex` guards everything; what is called without it says so.
//              Callbacks run without it, from the list that Locked drains.
// Errors       The first one breaks the group, on this rank and, by a message,
//              on its peers; later ones change nothing.

#ifndef PLUGINS_UCX_COMMUNICATOR_H_
#define PLUGINS_UCX_COMMUNICATOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/support/call.h"
#include "plugins/support/host.h"
#include "plugins/support/outcome.h"
#include "plugins/ucx/identity.h"
#include "plugins/ucx/inbox.h"
#include "plugins/ucx/mailbox.h"
#include "plugins/ucx/neighbours.h"
#include "plugins/ucx/operation.h"
#include "plugins/ucx/schedule.h"
#include "plugins/ucx/schedule_cache.h"
#include "plugins/ucx/wire.h"
#include "plugins/ucx/worker.h"

namespace muonshard::ucx {

class Communicator {
 public:
  Communicator(const plugins::Host& host, Identity identity,
               const ScheduleOptions& schedule_options);
  // Once, before a post. `channel` is null without neighbours.
  void Adopt(std::unique_ptr<Worker> worker, std::unique_ptr<Channel> channel);
  const plugins::Host& host() const { return host_; }
  const Identity& identity() const { return identity_; }
  plugins::HostMutex& mutex() { return mutex_; }
  plugins::HostCondition& changed() { return changed_; }
  Worker& worker() { return *worker_; }
  const plugins::Outcome& failure() const { return failure_; }
  bool broken() const { return !failure_.ok(); }
  // Without the mutex; by one task at a time.
  std::shared_ptr<const Schedule> ScheduleOf(const plugins::Call& call);
  void Enqueue(const std::shared_ptr<Operation>& operation);
  void ProducerEnded(Operation& operation, muonshard_code code,
                     const char* text);
  // Moves messages, ends what is too late; returns whether there were any. In a
  // hurry it looks at no clock, and at UCX seldom where all are neighbours.
  bool Advance(bool in_a_hurry = false);
  void CheckDeadlines();
  // The service sleeps until `wake` is called: whoever moves messages wakes it,
  // for UCX tells of what it left undone only to one that arms it anew.
  void ServiceSleeps(std::function<void()> wake) { wake_ = std::move(wake); }
  void ServiceIsAwake() { wake_ = nullptr; }
  int64_t NextDeadline() const;

  void Break(const plugins::Outcome& outcome);
  // Of a peer that is gone: nothing is sent to it.
  void Lose(int32_t peer, const std::string& how);
  // Tells the peers that this rank has left; nothing is posted any more.
  void Leave();
  bool left() const { return left_; }
  bool all_gone() const;  // The peers, that is.
  bool idle() const { return queue_.empty() && messages_.empty(); }
  bool has_told() const { return notices_.in_flight == 0; }
  // Null without any.
  Neighbours* neighbours() { return neighbours_.get(); }
  bool IsNeighbour(int32_t peer) const {
    return neighbours_ != nullptr && neighbours_->Has(peer);
  }
  Windows& windows() { return windows_; }
  void DestroyWorker();  // Last.
  void Count(muonshard_counters* counters) const;
  // Where its worker tells.
  Mailbox& mailbox() { return mailbox_; }
  // To be called when the mutex is free.
  std::vector<std::function<void()>> TakeCallbacks();

 private:
  void WakeService();
  void StartAll();
  void BeginRound(Operation& operation);
  void PostSends(Operation& operation);
  void HandleEnd(const Mailbox::EndedTransfer& ended);
  void Handle(Come come);
  void Deliver(Operation& operation, size_t receive, const Head& head,
               std::unique_ptr<Arrival> arrival);
  void Fetch(Operation& operation, size_t receive, Arrival& arrival);
  void ReceiveEnded(Operation& operation, size_t receive);
  void RunFolds(Operation& operation);
  bool AdvanceNeighbours();
  bool TakeFromNeighbours(Operation& operation);
  void WakeNeighbour(int32_t peer);
  void EndRoundIfDone(Operation& operation);
  void End(Operation& operation, const plugins::Outcome& outcome);
  void CheckLeft(const Operation& operation);
  void EndDrained();
  bool IsPast(const Operation& operation, size_t round_index) const;
  plugins::Outcome TooLate(const Operation& operation) const;
  std::vector<int32_t> Missing(const Operation& operation) const;
  void TellPeers(const Head& head);
  Operation* Find(const Head& head, size_t* receive);

  const plugins::Host& host_;
  const Identity identity_;
  ScheduleOptions schedule_options_;
  ScheduleCache schedules_;
  plugins::HostMutex mutex_;
  plugins::HostCondition changed_;
  std::unique_ptr<Worker> worker_;
  Windows windows_;
  std::unique_ptr<Neighbours> neighbours_;
  bool all_neighbours_ = false;
  uint32_t polls_ = 0;
  plugins::Outcome failure_;
  int64_t drop_at_ns_ = INT64_MAX;  // When endpoints of a broken group close.
  bool left_ = false;
  std::vector<bool> gone_;  // By peer: it has left or was lost.
  std::vector<bool> lost_;  // By peer: it hears nothing.
  // Of all ranks, in order; the first is the one that runs.
  std::deque<std::shared_ptr<Operation>> queue_;
  std::list<std::shared_ptr<Operation>> messages_;
  std::unique_ptr<RoundState> spare_state_;
  // Until nothing on the stack needs them.
  std::vector<std::shared_ptr<Operation>> ended_operations_;
  uint64_t posted_ = 0, ended_ = 0;
  std::map<std::pair<int32_t, bool>, uint64_t> pair_posted_;
  Inbox inbox_;
  Mailbox mailbox_;
  Notices notices_;
  std::function<void()> wake_;
  std::vector<std::function<void()>> callbacks_;
  std::vector<uint64_t> calls_;
  std::vector<uint64_t> bytes_sent_to_;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_COMMUNICATOR_H_
