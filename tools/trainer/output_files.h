// Files that a run leaves behind.
//
// Errors       What the system says; the text names flag and path.

#ifndef TOOLS_TRAINER_OUTPUT_FILES_H_
#define TOOLS_TRAINER_OUTPUT_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muonshard {

// Whether a file could be written at `path`. `flag` names it in the error.
// Leaves no new file behind and changes none.
absl::Status CheckWritable(absl::string_view flag, const std::string& path);

absl::Status WriteFile(absl::string_view flag, const std::string& path,
                       absl::string_view content);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_OUTPUT_FILES_H_
