// What an operation of a hierarchy becomes on its levels.
//
// In this file
//   H x L       hosts and lanes; rank h * L + l is lane l of host h
//   host level  the L ranks of the own host
//   lane level  the H ranks of the own lane
//
// Shapes       Every rank of a level gets the same operations of it, in the
//              same order, whatever its own segments are.
// Numerics     As hierarchical_collective.h says.

#ifndef COLLECTIVES_LEVEL_OPERATIONS_H_
#define COLLECTIVES_LEVEL_OPERATIONS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/capabilities.h"
#include "collectives/operation.h"

namespace muonshard {

struct HostAndLane {
  int32_t hosts = 1;
  int32_t lanes = 1;
  int32_t host = 0;  // Of the own rank.
  int32_t lane = 0;

  int32_t RankOf(int32_t h, int32_t l) const { return h * lanes + l; }
};

enum class HierarchyLevel { kHost, kLane };

// Operations of one level that do not wait for one another.
struct LevelOperations {
  HierarchyLevel level;
  std::vector<Operation> operations;
};

struct HierarchicalOperation {
  // Each waits for the one before.
  std::vector<LevelOperations> sequence;
  // What they need besides the memory of the call; null: nothing.
  std::shared_ptr<const void> scratch;
};

// What a hierarchy over such groups promises: what all three do, less what
// takes more than that.
Capabilities CapabilitiesOfLevels(const Capabilities& whole,
                                  const Capabilities& host_level,
                                  const Capabilities& lane_level);

// Whether operations of this kind go through the levels.
bool GoesThroughLevels(OperationKind kind);

// `operation` has been checked and goes through the levels. Its ready events
// are left to the caller.
HierarchicalOperation ToLevels(const Operation& operation,
                               const HostAndLane& place);

}  // namespace muonshard

#endif  // COLLECTIVES_LEVEL_OPERATIONS_H_
