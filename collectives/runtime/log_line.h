// One line to standard error, written with one call, so that the lines of many
// threads and processes do not mix.

#ifndef COLLECTIVES_RUNTIME_LOG_LINE_H_
#define COLLECTIVES_RUNTIME_LOG_LINE_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace muonshard {

// Writes `text` behind the word for `severity`. Line ends inside `text` become
// spaces.
void WriteLogLine(int32_t severity, absl::string_view text);

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_LOG_LINE_H_
