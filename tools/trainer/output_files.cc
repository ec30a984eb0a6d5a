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

namespace fs = std::filesystem;

// Where a write to `path` goes, also when no file is there yet.
fs::path WrittenPath(fs::path path) {
  // As many links as Linux follows.
  constexpr int kLinksMax = 40;
  std::error_code error;
  path = fs::absolute(path, error);
  // A link to what does not exist: writing makes it.
  for (int links = 0; links < kLinksMax && fs::is_symlink(path, error) &&
                      !fs::exists(path, error);
       ++links) {
    path = path.parent_path() / fs::read_symlink(path, error);
  }
  return fs::weakly_canonical(path, error);
}

bool SameFile(const std::string& one, const std::string& other) {
  std::error_code error;
  // Two names of one inode have two canonical paths.
  return fs::equivalent(one, other, error) ||
         WrittenPath(one) == WrittenPath(other);
}

absl::Status CannotWrite(absl::string_view flag, const std::string& path) {
  return absl::ErrnoToStatus(
      errno, absl::StrCat(flag, ": cannot write \"", path, "\""));
}

}  // namespace

absl::Status CheckDistinct(std::span<const NamedPath> paths) {
  for (size_t i = 0; i < paths.size(); ++i) {
    if (paths[i].path.empty()) continue;
    for (const NamedPath& other : paths.subspan(i + 1)) {
      if (other.path.empty() || !SameFile(paths[i].path, other.path)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(paths[i].flag, ", ", other.flag,
                       ": want different files, got one under \"",
                       paths[i].path, "\" and \"", other.path, "\""));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWritable(absl::string_view flag, const std::string& path) {
  std::error_code ignored;
  const bool existed = fs::exists(path, ignored);
  const File file(std::fopen(path.c_str(), "ab"));
  if (file == nullptr) return CannotWrite(flag, path);
  // The file that was made, not the link that may have led to it.
  if (!existed) fs::remove(fs::canonical(path, ignored), ignored);
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
