#include "tools/trainer/input_file.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

namespace fs = std::filesystem;

absl::string_view KindOf(const fs::file_status& status) {
  switch (status.type()) {
    case fs::file_type::directory:
      return "a folder";
    case fs::file_type::character:
    case fs::file_type::block:
      return "a device";
    case fs::file_type::fifo:
      return "a pipe";
    default:
      return "something else";
  }
}

}  // namespace

absl::StatusOr<std::string> ReadFile(absl::string_view what,
                                     const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return absl::NotFoundError(
        absl::StrCat(what, ": no such file: \"", path, "\""));
  }
  // A device may have no end.
  if (status.type() != fs::file_type::regular) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": want a regular file, got ", KindOf(status),
                     ": \"", path, "\""));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::vector<char> block(size_t{1} << 16);
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block.data(), static_cast<size_t>(file.gcount()));
  }
  // A file that did not open fails too, but only the end of one sets eof.
  if (file.bad() || !file.eof()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": want a file that can be read to its end, got \"",
                     path, "\" and ", text.size(), " bytes of it"));
  }
  return text;
}

}  // namespace muonshard
