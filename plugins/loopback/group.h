// N ranks of one process and the operations that they have in common.
//
// In this file
//   N        number of ranks
//   arrives  an operation of a rank arrives when its producers have ended and
//            all operations of all ranks (not messages) that the rank posted
//            before it have ended
//
// Ordering     Operations of all ranks run one at a time, in the order posted.
//              Messages meet per pair of ranks, in the order posted, and run
//              beside one another and beside later operations: a rank that
//              wants one after the other makes it a producer of the other.
// Threads      Everything wants the domain's mutex held, but for what is
//              const.
// Errors       The first one breaks the group: every work ends with it, as soon
//              as no task uses its buffers, and so does every later call.

#ifndef PLUGINS_LOOPBACK_GROUP_H_
#define PLUGINS_LOOPBACK_GROUP_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plugins/loopback/communicator.h"
#include "plugins/loopback/domain.h"
#include "plugins/loopback/outcome.h"
#include "plugins/loopback/slot.h"
#include "plugins/loopback/split.h"
#include "plugins/loopback/work.h"

namespace muonshard::loopback {

class Group : public std::enable_shared_from_this<Group> {
 public:
  Group(std::shared_ptr<Domain> domain, std::string name, int32_t size);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::shared_ptr<Domain>& domain() const { return domain_; }
  const std::string& name() const { return name_; }
  int32_t size() const { return size_; }

  // Takes the place of its rank, until `Leave`.
  Outcome Enter(Communicator* communicator);
  bool complete() const { return entered_ == size_; }
  std::vector<int32_t> Absent() const;  // Ranks that have not entered.
  // `unfinished`: the rank has works that have not ended.
  void Leave(int32_t rank, bool unfinished);
  // Withdraws what the rank has posted and what has not started.
  void MemberDied(int32_t rank);
  // Null for a rank that has not entered or has left.
  Communicator* member(int32_t rank) const { return members_[Index(rank)]; }

  // Starts the operation of `work`. It may end here.
  void Post(const std::shared_ptr<Work>& work);
  void ProducerEnded(Work& work);

  // The first call decides. `culprits` are of the world.
  void Break(const Outcome& outcome, const std::set<int32_t>& culprits = {});
  bool broken() const { return !failure_.ok(); }
  const Outcome& failure() const { return failure_; }
  const std::set<int32_t>& culprits() const { return culprits_; }
  void BreakAtDeadline(const Work& work);

  // Runs a share without the mutex, of `rank` if there is one, else of any
  // other; false if all are taken.
  bool RunOneShare(HostLock& lock, int32_t rank);
  bool HasUnclaimedShares() const;

  // Whether a peer has begun something that may lack a post of `rank`.
  bool MayLack(int32_t rank) const;
  // The ranks without whose posts `work` cannot end.
  std::vector<int32_t> Lacking(const Work& work) const;

  Split& SplitOf(uint64_t number);  // Begun on first use.
  void EraseSplit(uint64_t number) { splits_.erase(number); }
  // "ranks 1, 2", and who that is in the world where it differs.
  std::string Names(const std::vector<int32_t>& ranks) const;
  // "; held up by rank 5 of the world": who is behind `ranks`, or "".
  std::string Behind(const std::vector<int32_t>& ranks) const;
  // Of the world: who keeps `ranks`, at the end of all that lack somebody.
  std::set<int32_t> CulpritsOf(const std::vector<int32_t>& ranks) const;
  Outcome NotCome(const std::string& what,
                  const std::vector<int32_t>& missing) const;
  Outcome CheckNobodyLeft() const;  // OK, or that a rank has left.
  void NotifyMembers();

 private:
  static size_t Index(int32_t rank) { return static_cast<size_t>(rank); }

  Slot& PlaceAll(const std::shared_ptr<Work>& work);
  Slot& PlaceMessage(const std::shared_ptr<Work>& work);
  void Advance();
  void AdvanceMessages();
  bool Agree(Slot& slot);  // False breaks the group.
  // Delivers messages first. False if not all arrive, or the group breaks.
  bool Arrive(Slot& slot);
  void DeliverMessages(Slot& slot);
  void CheckInputs(const Slot& slot);  // That callers have let them be.
  void Start(const std::shared_ptr<Slot>& slot);
  void RunWhole(Slot& slot);
  // Ends the operation when the network would have.
  void PassOverNetwork(const std::shared_ptr<Slot>& slot);
  void OpenPhase(Slot& slot);
  void ShareEnded(const std::shared_ptr<Slot>& slot);
  void Finish(Slot& slot);
  void EndWorks(Slot& slot);
  void EndWork(Work& work);
  void Withdraw(Slot& slot, size_t index);
  Outcome RankLeft(int32_t rank, const std::string& consequence) const;
  const Slot* SlotOf(const Work& work) const;
  // The ranks without which nothing that `rank` has begun here can end.
  std::vector<int32_t> LackedBy(int32_t rank) const;
  int32_t ProgramRank(int32_t r) const { return program_ranks_[Index(r)]; }
  std::string DescribeSlot(const Slot& slot) const;

  const std::shared_ptr<Domain> domain_;
  const std::string name_;
  const int32_t size_;
  std::shared_ptr<NetworkClock> network_;  // Null: data is moved.
  int32_t entered_ = 0;
  std::vector<Communicator*> members_;
  std::vector<int32_t> program_ranks_;  // In the world; till known, the same.
  std::vector<bool> left_;
  bool somebody_left_ = false;
  Outcome failure_;
  std::set<int32_t> culprits_;  // Set with failure_, if known.
  // Set with failure_, and read without the mutex by shares that run.
  std::atomic<bool> stop_{false};

  std::deque<std::shared_ptr<Slot>> slots_;  // The front one runs or is next.
  uint64_t ended_ = 0;                       // Sequence of the front slot.
  std::vector<uint64_t> posted_;  // Operations of all ranks, by rank.
  std::map<std::pair<int32_t, int32_t>, Messages> pairs_;
  int32_t open_messages_ = 0;
  std::vector<std::shared_ptr<Slot>> running_;  // With shares to claim or end.
  std::map<uint64_t, Split> splits_;
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_GROUP_H_
