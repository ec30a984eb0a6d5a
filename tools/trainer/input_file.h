// Reads a file that a flag names.
//
// Errors       kNotFound if there is none; kInvalidArgument if it is no regular
//              file (a device may have no end) or cannot be read to its end.
//              The text begins with `what` and names the path.

#ifndef TOOLS_TRAINER_INPUT_FILE_H_
#define TOOLS_TRAINER_INPUT_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muonshard {

absl::StatusOr<std::string> ReadFile(absl::string_view what,
                                     const std::string& path);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_INPUT_FILE_H_
