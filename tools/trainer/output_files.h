// Files that a run leaves behind.
//
// Errors       kInvalidArgument of CheckDistinct; else what the system says.
//              The text names flag and path.

#ifndef TOOLS_TRAINER_OUTPUT_FILES_H_
#define TOOLS_TRAINER_OUTPUT_FILES_H_

#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muonshard {

// A file as a flag names it; an empty path is none.
struct NamedPath {
  absl::string_view flag;
  std::string path;
};

// Refuses two paths that are one file, under whatever names: a run would
// overwrite its own output, or the text it learns from. Files need not exist.
absl::Status CheckDistinct(std::span<const NamedPath> paths);

// Whether a file could be written at `path`. `flag` names it in the error.
// Leaves no new file behind and changes none.
absl::Status CheckWritable(absl::string_view flag, const std::string& path);

absl::Status WriteFile(absl::string_view flag, const std::string& path,
                       absl::string_view content);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_OUTPUT_FILES_H_
