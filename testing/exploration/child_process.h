// Code that may crash, run in a process of its own.
//
// Threads    The calling process has one thread: it is forked.
// Errors     kUnavailable: the system gave no process. kInternal: the child
//            ended without an answer; the text names its signal or exit code.
//            kDeadlineExceeded: it was silent for too long, and was killed.

#ifndef TESTING_EXPLORATION_CHILD_PROCESS_H_
#define TESTING_EXPLORATION_CHILD_PROCESS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace muonshard::testing {

// Calls `child(index, tell)` for each index in [0, count), each in a process of
// its own and all at once. What a child gives to `tell` reaches
// `told(index, line)` in the calling process, in order; a line has no line
// break. A child that neither tells nor ends for `silence_max` of real time is
// killed. Returns when all have ended, with one status for each.
using Tell = std::function<void(const std::string& line)>;
std::vector<absl::Status> RunInChildren(
    size_t count, const std::function<void(size_t index, const Tell&)>& child,
    const std::function<void(size_t index, const std::string& line)>& told,
    absl::Duration silence_max);

}  // namespace muonshard::testing

#endif  // TESTING_EXPLORATION_CHILD_PROCESS_H_
