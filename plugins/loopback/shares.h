// The data movement of one operation, cut into shares that may run at once.
//
// In this file
//   N             ranks that take part; 2 for a Send with its Recv
//   share i       what rank i must do; a Send with its Recv has share 0 alone
//   even share i  run i of a buffer that is cut into N evenly
//   phase         shares of one phase run in any order, after all of the phase
//                 before
//
// Ordering     An input may be its own output. No share writes what another of
//              its phase reads: AllReduce folds even share i of every input
//              into that of output i, which no other share reads in that
//              phase, and then every rank copies the even shares of the others.
// Threads      Shares of one phase on different tasks.
// Result       AllReduce, Broadcast and AllGatherV leave the same bits on all
//              ranks.

#ifndef PLUGINS_LOOPBACK_SHARES_H_
#define PLUGINS_LOOPBACK_SHARES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "plugins/loopback/call.h"

namespace muonshard::loopback {

// 0 where nothing is to be moved.
int32_t PhaseCount(uint32_t kind);

// Calls by rank, or a Send and its Recv; all agree. Returns early, with the
// outputs half written, once `stop` is set.
void RunShare(std::span<const Call* const> calls, int32_t phase, int32_t share,
              const std::atomic<bool>& stop);

// Even share `index` of `count` elements, of `shares`: the first ones are
// longer by one element where it does not divide.
Segment EvenShare(uint64_t count, uint64_t shares, uint64_t index);

// The payload bytes that one rank has sent to each rank of its group, by the
// direct algorithm of each kind: every contribution goes straight to whoever
// needs it. AllReduce counts as the reduce-scatter of even shares and the
// all-gather of the results.
class SentBytes {
 public:
  SentBytes(int32_t rank, int32_t size)
      : rank_(static_cast<size_t>(rank)), size_(static_cast<size_t>(size)) {}

  // Counts `call`, which the rank has made. Takes as long as the call has
  // segments, and no longer in larger groups.
  void Add(const Call& call);

  // `sent_to` has an entry for each rank; nothing is sent to itself.
  void Fill(std::span<uint64_t> sent_to) const;

 private:
  // Adds to all ranks from `first` on.
  void AddFrom(uint64_t first, uint64_t bytes);

  // What was sent to `peer` beside what `steps_` tells.
  uint64_t& ToOne(size_t peer);

  const size_t rank_;
  const size_t size_;
  std::vector<uint64_t> to_one_;  // Made on first use.
  // By how much more was sent to a rank than to the one before it, where that
  // differs; modulo 2^64.
  std::map<uint64_t, uint64_t> steps_;
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_SHARES_H_
