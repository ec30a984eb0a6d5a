// One operation as its rank has it, from its post to its end.
//
// Threads      Guarded by the mutex of its communicator, but for what is const.
//              An outcome no longer changes once `ended` is set.

#ifndef PLUGINS_UCX_OPERATION_H_
#define PLUGINS_UCX_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <string>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/support/call.h"
#include "plugins/support/outcome.h"
#include "plugins/ucx/schedule.h"
#include "plugins/ucx/worker.h"

namespace muonshard::ucx {

class Communicator;

// A hash of all that ranks must agree on: equal for calls that fit.
uint64_t DigestOf(const plugins::Call& call);

// How far a round's messages to and from a neighbour are.
struct Lane {
  size_t sent = 0;
  uint64_t sent_bytes = 0;  // Of the next one.
  size_t taken = 0;
  uint64_t taken_bytes = 0;
  uint64_t exposed = 0;      // Sent, and not released.
  bool has_exposed = false;  // Some were received.
};

// How far the round of an operation is. Made once and used again, so that a
// group that is at work makes no memory.
struct RoundState {
  void Begin(const Round& round);

  size_t sends_left = 0;
  size_t receives_left = 0;
  size_t folded = 0;                           // How many folds are done.
  std::vector<uint32_t> fold_waits_for;        // By fold: receives.
  std::vector<bool> heard;                     // By receive: its message came.
  std::vector<std::unique_ptr<Arrival>> held;  // By receive: no room yet.
  std::vector<Lane> lanes;                     // By part of the round.
  // By receive: where a neighbour's contribution lies, until it is folded.
  std::vector<const std::byte*> shared;
  std::vector<const std::byte*> contributions;  // Of the fold that is done.
};

struct Operation {
  struct Callback {
    muonshard_done_function function;
    void* argument;
  };

  // Hears how the transfer of one message ended, and passes it on.
  struct Message final : Transfer {
    Message(Operation* of, bool received, size_t at)
        : operation(of), is_receive(received), index(at) {}
    void Ended(const plugins::Outcome& outcome) override;

    Operation* const operation;
    const bool is_receive;
    const size_t index;  // In the round.
  };

  Operation(std::shared_ptr<Communicator> posted_to, plugins::Call posted,
            int32_t producers);

  bool pairwise() const { return call.pairwise(); }
  const Round& round() const { return schedule->rounds[round_index]; }
  // The call in words.
  std::string text() const { return plugins::Describe(call); }
  // What errors begin with: the operation with its group.
  std::string Describe() const;
  std::byte* At(const Piece& piece);

  const std::shared_ptr<Communicator> communicator;
  const plugins::Call call;
  const uint64_t digest;
  const std::shared_ptr<const Schedule> schedule;
  // Events that have not happened.
  int32_t unready;
  // Among the operations of all ranks, or among the messages of its pair.
  uint64_t sequence = 0;
  // Of a message: it waits for so many operations of all ranks to end.
  uint64_t gate = 0;

  bool started = false;
  size_t round_index = 0;
  std::unique_ptr<std::byte[]> scratch;
  std::unique_ptr<RoundState> state;  // From its start on.
  // Of all rounds: messages that UCX was given, and how many it still knows.
  std::forward_list<Message> messages;
  size_t in_flight = 0;

  bool ended = false;
  plugins::Outcome outcome;
  std::vector<Callback> callbacks;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_OPERATION_H_
