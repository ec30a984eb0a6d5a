// The data movement of one operation, cut into parts that may run at once.
//
// In this file
//   N       ranks that take part; 2 for a Send with its Recv
//   part i  what rank i must do; a Send with its Recv has the one part 0
//   phase   parts of one phase run in any order, after all of the phase
//   before
//
// Ordering     An input may be its own output. No part writes what another of
//              its phase reads: AllReduce folds share i of every input into
//              share i of output i, which no other part reads in that phase,
//              and then every rank copies the shares of the others.
// Threads      Parts of one phase on different tasks.
// Result       AllReduce, Broadcast and AllGatherV leave the same bits on all
//              ranks.

#ifndef PLUGINS_LOOPBACK_PARTS_H_
#define PLUGINS_LOOPBACK_PARTS_H_

#include <atomic>
#include <cstdint>
#include <span>

#include "plugins/loopback/call.h"

namespace muonshard::loopback {

// 0 where nothing is to be moved.
int32_t PhaseCount(uint32_t kind);

// Calls by rank, or a Send and its Recv; all agree. Returns early, with the
// outputs half written, once `stop` is set.
void RunPart(std::span<const Call* const> calls, int32_t phase, int32_t part,
             const std::atomic<bool>& stop);

// Share `index` of `count` elements cut evenly into `shares`: the first ones
// are longer by one element where it does not divide.
Segment EvenShare(uint64_t count, uint64_t shares, uint64_t index);

// Adds the payload bytes that `rank`, which made `call`, sends to each of
// sent_to.size() ranks, by the direct algorithm of each kind: every
// contribution goes straight to whoever needs it. AllReduce counts as the
// reduce-scatter of even shares and the all-gather of the results.
void CountBytes(const Call& call, int32_t rank, std::span<uint64_t> sent_to);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_PARTS_H_
