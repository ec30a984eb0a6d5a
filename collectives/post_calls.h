// Posts the launches of several calls: one post per level and plugin.

#ifndef COLLECTIVES_POST_CALLS_H_
#define COLLECTIVES_POST_CALLS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "collectives/launch.h"
#include "collectives/work.h"

namespace muonshard {

// Work i is of `calls[i]`. Level k of all calls is posted before level k+1 of
// any, as one launch per plugin, and the launches of level k+1 are ready when
// those of level k have ended, by stream order and without a host wait.
//
// Calls of one CallOrder that go different ways do not share levels: the first
// level of one follows the last level of the other. So every rank posts to a
// communicator in the same order, wherever its memory lies, and calls that must
// wait for one another do. Those that go one way and share memory that one of
// them writes cannot be posted together: kInvalidArgument.
//
// An error means that nothing was started. Where a post fails after another
// one has started, its calls end with the error once what was started of them
// has ended, and their groups are aborted, so that no peer waits for them.
absl::StatusOr<std::vector<Work>> PostCalls(std::vector<LoweredCall> calls);

}  // namespace muonshard

#endif  // COLLECTIVES_POST_CALLS_H_
