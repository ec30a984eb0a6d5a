// Finds a program and starts it as one rank.
//
// A rank reads nothing, writes into two pipes, leads a process group of its
// own, so that it can be ended with all that it starts, and is killed with the
// thread that started it. It stays in the launcher's session: the scheduler
// shares the machine between sessions, and ranks in several would take turns
// where they should run side by side.
//
// Errors       kNotFound: no such program. kPermissionDenied and
//              kFailedPrecondition: it cannot be run. Else what the system
//              lacks for one more process.

#ifndef TOOLS_LAUNCHER_RANK_PROCESS_H_
#define TOOLS_LAUNCHER_RANK_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/launcher/descriptor.h"

namespace muonshard {

struct RankProcess {
  pid_t id = -1;
  Descriptor end;  // Readable once the process has ended.
  // Read without blocking.
  Descriptor out;
  Descriptor errors;
};

// The path of `program`, sought in `folders`, with colons between, if it has no
// slash.
absl::StatusOr<std::string> FindProgram(const std::string& program,
                                        absl::string_view folders);

// `path` is that of the program; `command` what it is told. `signals` are
// blocked in it.
absl::StatusOr<RankProcess> StartRank(const std::string& path,
                                      std::span<const std::string> command,
                                      std::span<const std::string> environment,
                                      const sigset_t& signals);

}  // namespace muonshard

#endif  // TOOLS_LAUNCHER_RANK_PROCESS_H_
