#include "tools/launcher/launch_main.h"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/launcher/launch_flags.h"
#include "tools/launcher/meeting_store.h"
#include "tools/launcher/rank_environment.h"
#include "tools/launcher/rank_process.h"
#include "tools/launcher/signal_inbox.h"
#include "tools/launcher/supervisor.h"

namespace muonshard {
namespace {

constexpr int kWrongFlags = 2;

// As shells do.
int StatusOf(const absl::Status& start) {
  if (absl::IsNotFound(start)) return 127;
  return absl::IsPermissionDenied(start) || absl::IsFailedPrecondition(start)
             ? 126
             : 1;
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

absl::Status StartRanks(const LaunchOptions& options, const std::string& path,
                        const MeetingStore& store, const SignalInbox& signals,
                        Supervisor& supervisor) {
  const std::vector<std::string> inherited = OwnEnvironment();
  for (int32_t rank = 0; rank < options.ranks; ++rank) {
    absl::StatusOr<RankProcess> process =
        StartRank(path, options.command,
                  RankEnvironment(inherited, {.rank = rank,
                                              .size = options.ranks,
                                              .store = store.address(),
                                              .secret = store.secret()}),
                  signals.blocked_before());
    if (!process.ok()) return process.status();
    supervisor.Add(*std::move(process));
  }
  return absl::OkStatus();
}

// What went wrong before all ranks were started is an error.
absl::StatusOr<int> Launch(const LaunchOptions& options, std::ostream& out,
                           std::ostream& errors) {
  const char* const folders = std::getenv("PATH");
  const absl::StatusOr<std::string> path =
      FindProgram(options.command[0], folders == nullptr ? "" : folders);
  if (!path.ok()) return path.status();
  const absl::StatusOr<std::unique_ptr<SignalInbox>> signals =
      SignalInbox::Create();
  if (!signals.ok()) return signals.status();
  const absl::StatusOr<std::unique_ptr<MeetingStore>> store =
      MeetingStore::Open(options.store);
  // Not a program that is missing, whatever it is.
  if (!store.ok()) return absl::UnavailableError(store.status().message());
  Supervisor supervisor(
      {.prefix = options.prefix,
       .keep_going = options.keep_going,
       .grace = std::chrono::duration<double>(options.grace_seconds)},
      **signals, out, errors);
  if (absl::Status s =
          StartRanks(options, *path, **store, **signals, supervisor);
      !s.ok()) {
    return s;
  }
  return supervisor.Run();
}

}  // namespace

int LaunchMain(std::span<const absl::string_view> arguments, std::ostream& out,
               std::ostream& errors) {
  const absl::StatusOr<LaunchCommand> command = ParseLaunchFlags(arguments);
  if (!command.ok()) {
    errors << "launch: " << command.status().message() << "\n";
    return kWrongFlags;
  }
  if (command->help_wanted) {
    out << LaunchHelp();
    return 0;
  }
  const absl::StatusOr<int> ended = Launch(command->options, out, errors);
  if (!ended.ok()) {
    errors << "launch: " << ended.status().message() << "\n";
    return StatusOf(ended.status());
  }
  return *ended;
}

}  // namespace muonshard
