#include "collectives/runtime/log_line.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "collectives/runtime/runtime.h"

namespace muonshard {
namespace {

absl::string_view SeverityWord(int32_t severity) {
  if (severity >= kLogError) return "error";
  if (severity == kLogWarning) return "warning";
  return "info";
}

}  // namespace

void WriteLogLine(int32_t severity, absl::string_view text) {
  std::string line =
      absl::StrCat("muonshard ", SeverityWord(severity), ": ", text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line.push_back('\n');
  // A log that cannot be written has nowhere to say so.
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace muonshard
