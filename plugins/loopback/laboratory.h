// The laboratory of one opened plugin: it counts the operations of every rank,
// says what goes wrong at each, and knows who is dead and what is alive.
//
// In this file
//   rank       of the world
//   operation  see fault_plan.h
//
// Threads      Everything wants the domain's mutex held, but for what is const
//              and for the count of live works, which may end anywhere.
// Memory       Shared by the plugin and its communicators.
// Cost         Without a plan an operation costs a count, and no message is
//              made.

#ifndef PLUGINS_LOOPBACK_LABORATORY_H_
#define PLUGINS_LOOPBACK_LABORATORY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plugins/loopback/fault_plan.h"
#include "plugins/loopback/outcome.h"

namespace muonshard::loopback {

class Communicator;

// What goes wrong at one operation.
struct Fate {
  enum class Message { kWhole, kLost, kShort, kCorrupt, kTwice };

  uint64_t operation = 0;
  bool dies_before = false;
  bool dies_after = false;
  bool no_memory = false;
  bool aborts = false;
  int64_t late_ns = 0;
  Message message = Message::kWhole;
};

class Laboratory {
 public:
  Laboratory(std::vector<Fault> plan, bool checks);
  Laboratory(const Laboratory&) = delete;
  Laboratory& operator=(const Laboratory&) = delete;

  const std::vector<Fault>& plan() const { return plan_; }
  // Whether buffers are poisoned and compared.
  bool checks() const { return checks_; }
  // Whether contributions go as messages, with sequence, size and checksum.
  bool makes_messages() const { return makes_messages_; }

  // MUONSHARD_E_ARGUMENT if the plan names a rank that a world of `size` ranks
  // does not have.
  Outcome CheckRanks(int32_t size) const;

  // Counts an operation of `rank` and says what becomes of it.
  Fate NextOperation(int32_t rank);

  // `cause` is what the rank's own calls return from now on. The first call
  // decides.
  void Die(int32_t rank, const Outcome& cause);
  // Null while the rank lives.
  const Outcome* DeathOf(int32_t rank) const;

  // The communicators that are in their groups.
  void Enter(int32_t rank, Communicator* communicator);
  void Leave(int32_t rank, Communicator* communicator);
  std::vector<Communicator*> CommunicatorsOf(int32_t rank) const;

  // Without the mutex, as all that counts lives.
  void WorkMade() { ++live_works_; }
  void WorkGone() { --live_works_; }
  void CommunicatorMade() { ++live_communicators_; }
  void CommunicatorGone() { --live_communicators_; }

  void DuplicateDropped() { ++duplicates_dropped_; }

  // One "name: value" a line.
  std::string Report() const;

 private:
  const std::vector<Fault> plan_;
  const bool checks_;
  const bool makes_messages_;

  std::map<int32_t, uint64_t> operations_;
  std::set<size_t> reached_;  // Indices of the plan.
  std::map<int32_t, Outcome> deaths_;
  std::multimap<int32_t, Communicator*> communicators_;
  uint64_t duplicates_dropped_ = 0;
  std::atomic<int64_t> live_works_{0};
  std::atomic<int64_t> live_communicators_{0};
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_LABORATORY_H_
