// Whether two ranks agree on what their group does next.

#ifndef PLUGINS_SUPPORT_MISMATCH_H_
#define PLUGINS_SUPPORT_MISMATCH_H_

#include <cstdint>
#include <string>

#include "plugins/support/call.h"
#include "plugins/support/outcome.h"

namespace muonshard::plugins {

// A call with the rank that made it.
struct RankCall {
  const Call& call;
  int32_t rank;
};

// OK, or MUONSHARD_E_MISMATCH with a text that names both calls. Ranks agree on
// kind, type, reduction, scale, root, counts and fingerprint; what a rank sends
// another in AllToAllV, that one expects. `left` and `right` are calls of all
// ranks with the same number, or a Send and the Recv it meets.
Outcome CompareCalls(const RankCall& left, const RankCall& right,
                     uint64_t sequence, const std::string& group);

}  // namespace muonshard::plugins

#endif  // PLUGINS_SUPPORT_MISMATCH_H_
