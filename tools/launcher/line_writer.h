// Passes on what a rank writes in whole lines, so that those of several ranks
// do not mix.
//
// Memory       At most one line, or 1 MiB of a longer one, which is broken
//              there.

#ifndef TOOLS_LAUNCHER_LINE_WRITER_H_
#define TOOLS_LAUNCHER_LINE_WRITER_H_

#include <ostream>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace muonshard {

class LineWriter {
 public:
  // Begins each line with `prefix`. `out` outlives it.
  LineWriter(std::ostream& out, std::string prefix)
      : out_(out), prefix_(std::move(prefix)) {}

  void Add(absl::string_view text);

  // Ends the last line if the rank did not.
  void Finish();

 private:
  void Write(absl::string_view line);

  std::ostream& out_;
  const std::string prefix_;
  std::string begun_;  // A line without its end.
};

}  // namespace muonshard

#endif  // TOOLS_LAUNCHER_LINE_WRITER_H_
