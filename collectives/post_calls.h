// Posts the launches of several calls: one post per level and plugin.

#ifndef COLLECTIVES_POST_CALLS_H_
#define COLLECTIVES_POST_CALLS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "collectives/launch.h"
#include "collectives/work.h"

namespace muonshard {

// `calls[i]` are the levels of call i, in order; work i is of call i. Level k
// of all calls is posted before level k+1 of any, as one launch per plugin, and
// the launches of level k+1 are ready when those of level k have ended, by
// stream order and without a host wait.
//
// An error means that nothing was started. Where a post fails after another
// one has started, its calls end with the error once what was started of them
// has ended, and their groups are aborted, so that no peer waits for them.
absl::StatusOr<std::vector<Work>> PostCalls(
    std::vector<std::vector<LaunchLevel>> calls);

}  // namespace muonshard

#endif  // COLLECTIVES_POST_CALLS_H_
