#include "tools/trainer/output_files.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

using File = std::unique_ptr<std::FILE, FileCloser>;

absl::Status CannotWrite(absl::string_view flag, const std::string& path) {
  return absl::ErrnoToStatus(
      errno, absl::StrCat(flag, ": cannot write \"", path, "\""));
}

}  // namespace

absl::Status CheckWritable(absl::string_view flag, const std::string& path) {
  std::error_code ignored;
  const bool existed = std::filesystem::exists(path, ignored);
  const File file(std::fopen(path.c_str(), "ab"));
  if (file == nullptr) return CannotWrite(flag, path);
  if (!existed) std::filesystem::remove(path, ignored);
  return absl::OkStatus();
}

absl::Status WriteFile(absl::string_view flag, const std::string& path,
                       absl::string_view content) {
  File file(std::fopen(path.c_str(), "wb"));
  if (file == nullptr) return CannotWrite(flag, path);
  const bool written = std::fwrite(content.data(), 1, content.size(),
                                   file.get()) == content.size();
  // Closing may be what finds a full disk.
  if (std::fclose(file.release()) != 0 || !written) {
    return CannotWrite(flag, path);
  }
  return absl::OkStatus();
}

}  // namespace muonshard
