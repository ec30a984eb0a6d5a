// Runs one program per rank, each in a process of its own, over the plugin
// "ucx".
//
// Threads      The caller's process has no tasks when it calls.
// Errors       What a program returned, in words; a process that ended
//              otherwise says how.

#ifndef TESTING_PROCESS_RANKS_H_
#define TESTING_PROCESS_RANKS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/plugin.h"
#include "collectives/runtime/runtime.h"
#include "collectives/store.h"
#include "topology/rank.h"

namespace muonshard::testing {

// A hang is a failure long before the test's own limit.
inline constexpr absl::Duration kPatience = absl::Seconds(60);

// What a rank's program finds around it.
struct Process {
  Rank rank;
  Plugin& plugin;
  Store& store;
  Runtime& runtime;
  Collective& world;
};

// What each of `size` processes says in the end, "OK" or its error, or what
// ended the process. They are all of one group.
std::vector<std::string> RunInProcesses(
    size_t size, const std::function<absl::Status(Process&)>& program);

// The result of a call.
absl::Status Finish(Process& process, const absl::StatusOr<Work>& work);

}  // namespace muonshard::testing

#endif  // TESTING_PROCESS_RANKS_H_
