// What a plugin promises beyond the required minimum, and what it counts.

#ifndef COLLECTIVES_CAPABILITIES_H_
#define COLLECTIVES_CAPABILITIES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "collectives/operation.h"

namespace muonshard {

// Every field is a promise of all ranks of the group: false and absent bits
// mean "not promised".
struct Capabilities {
  uint64_t operations = 0;  // Bit 1 << OperationKind.
  uint64_t data_types = 0;  // Bit 1 << DataType.
  uint64_t reductions = 0;  // Bit 1 << ReductionKind.
  bool canonical = false;
  bool repeatable = false;
  bool mismatch_detected = false;
  bool deadlock_detected = false;
  bool split = false;
  bool window = false;
  bool exact_counters = false;
};

// Counted since the group was made.
struct CollectiveCounters {
  std::array<uint64_t, kOperationKindCount> calls = {};  // By OperationKind.
  // Payload bytes sent to each rank of the group; 0 for the own rank.
  std::vector<uint64_t> bytes_sent_to;

  uint64_t bytes_sent() const {
    uint64_t sum = 0;
    for (const uint64_t bytes : bytes_sent_to) sum += bytes;
    return sum;
  }
};

}  // namespace muonshard

#endif  // COLLECTIVES_CAPABILITIES_H_
