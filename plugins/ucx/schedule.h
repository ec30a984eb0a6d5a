// What one rank sends, receives and folds in an operation, and in which order.
//
// In this file
//   round    messages that do not wait for one another; a round begins when all
//            of the one before it has ended on this rank
//   number   of a message in its round, among those of its sender to its
//            receiver
//   fold     a reduction of one piece of every rank's contribution
//
// Ordering     In its first round an operation of all ranks has a message from
//              each rank to each other, an empty one where there is nothing to
//              say: so every rank hears what every other called.
// Numerics     Folds are canonical: contributions lie in rank order.

#ifndef PLUGINS_UCX_SCHEDULE_H_
#define PLUGINS_UCX_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "plugins/support/call.h"

namespace muonshard::ucx {

enum class Space : uint8_t { kIn, kOut, kScratch };

struct Piece {
  Space space = Space::kIn;
  uint64_t offset = 0;  // In bytes, and so are the rest.
  uint64_t bytes = 0;
};

struct Send {
  int32_t peer = 0;
  uint32_t number = 0;
  Piece from;
  bool is_folded = false;  // By its receiver.
};

struct Receive {
  int32_t peer = 0;
  uint32_t number = 0;
  Piece to;
  // Index of the fold that last uses the memory of `to`, -1 if none does.
  int32_t after_fold = -1;
  // Index of the fold that waits for this, -1 if none does.
  int32_t fold = -1;
};

struct Fold {
  uint64_t count = 0;  // Of elements.
  Piece to;
  std::vector<Piece> contributions;  // By rank.
  std::vector<int32_t> receives;     // By rank: their indices; -1: the own.
};

struct Copy {
  Piece from;
  Piece to;
};

// A round's messages to and from one peer, in the order of their numbers.
struct PeerPart {
  int32_t peer = 0;
  std::vector<uint32_t> sends;  // Indices.
  std::vector<uint32_t> receives;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
};

struct Round {
  std::vector<Copy> copies;  // First.
  std::vector<Send> sends;
  std::vector<Receive> receives;
  std::vector<Fold> folds;      // Done in order.
  std::vector<PeerPart> parts;  // Of all peers with messages.
  // Folds overwrite what is sent, where the call is in place.
  bool folds_after_sends = false;
};

struct Schedule {
  std::vector<Round> rounds;
  uint64_t scratch_bytes = 0;
};

struct ScheduleOptions {
  // An all-reduce of at most so many bytes sends all of it to every rank.
  uint64_t direct_bytes_max = 8 * 1024;
  // Contributions are folded in pieces of so many bytes, > 0, while later ones
  // arrive, of which so many have room at a time, > 0.
  uint64_t piece_bytes = 256 * 1024;
  uint32_t pieces_at_once = 4;
};

// Of `call`, made by `rank` of `size`.
Schedule MakeSchedule(const plugins::Call& call, int32_t rank, int32_t size,
                      const ScheduleOptions& options);

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_SCHEDULE_H_
