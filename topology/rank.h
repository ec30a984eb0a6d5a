// Position of a process inside one group of ranks, in [0, size of the group).
//
// A distinct type, because a rank, a count and a device ordinal are all small
// integers and only one of them is right in any argument.

#ifndef TOPOLOGY_RANK_H_
#define TOPOLOGY_RANK_H_

#include <cstdint>

namespace muonshard {

enum class Rank : int32_t {};

constexpr int32_t ToInt(Rank rank) { return static_cast<int32_t>(rank); }

}  // namespace muonshard

#endif  // TOPOLOGY_RANK_H_
