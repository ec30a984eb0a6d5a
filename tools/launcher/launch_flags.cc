#include "tools/launcher/launch_flags.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tools/trainer/flags.h"

namespace muonshard {
namespace {

constexpr int32_t kRanksMax = 1024;

void AddFlags(LaunchOptions& options, std::string& store, FlagTable& table) {
  table.AddInteger("ranks", "processes to start; -n N is the same", 1,
                   kRanksMax, &options.ranks);
  table.AddText("store", "tcp|ADDRESS",
                "where ranks meet: served on a free port of 127.0.0.1, or at "
                "tcp:HOST:PORT, or files in a fresh folder in file:FOLDER",
                &store);
  table.AddSwitch("prefix", "begin each line of output with [rank]",
                  &options.prefix);
  table.AddSwitch("keep-going", "let other ranks go on when one fails",
                  &options.keep_going);
  table.AddNumber("grace-seconds",
                  "between SIGTERM to ranks that must end and SIGKILL", 0, 3600,
                  &options.grace_seconds);
}

}  // namespace

absl::StatusOr<LaunchCommand> ParseLaunchFlags(
    std::span<const absl::string_view> arguments) {
  LaunchCommand command;
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<absl::string_view> flags(arguments.begin(), end);
  std::replace(flags.begin(), flags.end(), absl::string_view("-n"),
               absl::string_view("--ranks"));
  std::string store = "tcp";
  FlagTable table;
  AddFlags(command.options, store, table);
  if (absl::Status s = table.Parse(flags); !s.ok()) {
    if (end != arguments.end()) return s;
    return absl::Status(
        s.code(),
        absl::StrCat(s.message(), "; the program to start comes after --"));
  }
  command.help_wanted = table.help_wanted();
  if (command.help_wanted) return command;
  if (store != "tcp") {
    const absl::StatusOr<StoreAddress> address = ParseStoreAddress(store);
    if (!address.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--store: ", address.status().message()));
    }
    command.options.store = *address;
  }
  if (end != arguments.end()) {
    command.options.command =
        std::vector<std::string>(end + 1, arguments.end());
  }
  if (command.options.command.empty() || command.options.command[0].empty()) {
    return absl::InvalidArgumentError(
        "want a program after --, got none; for example: launch -n 4 -- train "
        "--plugin=ucx");
  }
  return command;
}

std::string LaunchHelp() {
  LaunchOptions options;
  std::string store = "tcp";
  FlagTable table;
  AddFlags(options, store, table);
  return absl::StrCat(
      "launch -n N [flags] -- PROGRAM [arguments]\n\n"
      "Starts N ranks of a program on this host, gives each its place in the "
      "variables\nMUONSHARD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE,STORE,"
      "STORE_SECRET}, and ends all when\none fails. Ends as the first rank "
      "that "
      "failed: with its exit status, or 128 and\nthe signal that killed it; "
      "127 "
      "for a program that is not found, 126 for one that\ncannot be run, 2 for "
      "wrong flags.\n\nFlags [default]:\n",
      table.Help());
}

}  // namespace muonshard
