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
#include <cstdint>
#include <span>

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

// Adds the payload bytes that `rank`, which made `call`, sends to each of
// sent_to.size() ranks, by the direct algorithm of each kind: every
// contribution goes straight to whoever needs it. AllReduce counts as the
// reduce-scatter of even shares and the all-gather of the results.
void CountBytes(const Call& call, int32_t rank, std::span<uint64_t> sent_to);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_SHARES_H_
