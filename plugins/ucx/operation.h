// One operation as its rank has it, from its post to its end.
//
// Threads      Guarded by the mutex of its communicator, but for what is const.
//              An outcome no longer changes once `ended` is set.

#ifndef PLUGINS_UCX_OPERATION_H_
#define PLUGINS_UCX_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
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
  const Round& round() const { return schedule.rounds[round_index]; }
  std::byte* At(const Piece& piece);

  const std::shared_ptr<Communicator> communicator;
  const plugins::Call call;
  const uint64_t digest;
  const std::string text;  // The call in words.
  Schedule schedule;
  // Events that have not happened.
  int32_t unready;
  // Among the operations of all ranks, or among the messages of its pair.
  uint64_t sequence = 0;
  // Of a message: it waits for so many operations of all ranks to end.
  uint64_t gate = 0;

  bool started = false;
  size_t round_index = 0;
  std::vector<std::byte> scratch;
  // Of the round.
  size_t sends_left = 0;
  size_t receives_left = 0;
  size_t folds_left = 0;
  std::vector<uint32_t> fold_waits_for;  // By fold: receives.
  std::vector<bool> folded;              // By fold.
  std::vector<bool> heard;               // By receive: its message has come.
  std::vector<std::unique_ptr<Arrival>> held;  // By receive: no room yet.
  std::deque<Message> messages;
  // Of all rounds: messages that UCX still knows.
  size_t in_flight = 0;

  bool ended = false;
  plugins::Outcome outcome;
  std::vector<Callback> callbacks;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_OPERATION_H_
