#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "collectives/store.h"

namespace muonshard {
namespace {

// How long to wait before looking at a file again: doubles from the first to
// the second.
constexpr absl::Duration kPollMin = absl::Milliseconds(1);
constexpr absl::Duration kPollMax = absl::Milliseconds(50);
// Nobody holds the lock for longer than it takes to write one small file.
constexpr absl::Duration kLockTimeout = absl::Seconds(30);
// Of a file's name; file systems allow 255.
constexpr size_t kNameBytesMax = 200;

absl::Status SystemError(absl::string_view what, absl::string_view path,
                         int error) {
  return absl::UnavailableError(absl::StrCat("file store: ", what, " ", path,
                                             ": ", std::strerror(error)));
}

// A file descriptor, closed at the end.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

// The whole file, or nullopt if there is none.
absl::StatusOr<std::optional<std::string>> ReadFile(const std::string& path) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT) return std::nullopt;
    return SystemError("cannot open", path, errno);
  }
  std::string content;
  char chunk[4096];
  while (true) {
    const ssize_t bytes = read(file.descriptor(), chunk, sizeof(chunk));
    if (bytes == 0) return content;
    if (bytes > 0) {
      content.append(chunk, static_cast<size_t>(bytes));
    } else if (errno != EINTR) {
      return SystemError("cannot read", path, errno);
    }
  }
}

absl::Status WriteAll(const File& file, const std::string& path,
                      absl::string_view content) {
  while (!content.empty()) {
    const ssize_t bytes =
        write(file.descriptor(), content.data(), content.size());
    if (bytes >= 0) {
      content.remove_prefix(static_cast<size_t>(bytes));
    } else if (errno != EINTR) {
      return SystemError("cannot write", path, errno);
    }
  }
  return absl::OkStatus();
}

// Lets a task wait for a while through the runtime, longer each time.
class Poll {
 public:
  Poll(Runtime& runtime, absl::Time deadline)
      : runtime_(runtime), deadline_(deadline) {}

  // False once the deadline has passed. `condition` ends the pause early.
  bool Pause(Mutex& mutex, Condition& condition) {
    const absl::Time now = runtime_.Now();
    if (now >= deadline_) return false;
    condition.Wait(mutex, std::min(deadline_, now + pause_));
    pause_ = std::min(2 * pause_, kPollMax);
    return true;
  }

 private:
  Runtime& runtime_;
  const absl::Time deadline_;
  absl::Duration pause_ = kPollMin;
};

class FileStore final : public Store {
 public:
  FileStore(Runtime& runtime, std::string folder)
      : runtime_(runtime),
        folder_(std::move(folder)),
        mutex_(runtime.NewMutex()),
        changed_(runtime.NewCondition()) {}

  absl::Status Put(absl::string_view key, absl::string_view value) override {
    if (absl::Status s = CheckStoreKey(key); !s.ok()) return s;
    if (absl::Status s = Replace(PathOf("value", key), value); !s.ok()) {
      return s;
    }
    // Wakes the readers of this object; those of others poll.
    const MutexLock lock(*mutex_);
    changed_->NotifyAll();
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Get(absl::string_view key,
                                  absl::Time deadline) override {
    if (absl::Status s = CheckStoreKey(key); !s.ok()) return s;
    const std::string path = PathOf("value", key);
    Poll poll(runtime_, deadline);
    const MutexLock lock(*mutex_);
    do {
      absl::StatusOr<std::optional<std::string>> value = ReadFile(path);
      if (!value.ok()) return value.status();
      if (value->has_value()) return **std::move(value);
    } while (poll.Pause(*mutex_, *changed_));
    return absl::DeadlineExceededError(absl::StrCat(
        "key \"", key, "\" did not come into the store in ", folder_));
  }

  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) override {
    if (absl::Status s = CheckStoreKey(key); !s.ok()) return s;
    const std::string path = PathOf("counter", key);
    const std::string lock_path = absl::StrCat(folder_, "/lock");
    const File file(
        open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file.is_open()) return SystemError("cannot open", lock_path, errno);

    Poll poll(runtime_, runtime_.Now() + kLockTimeout);
    const MutexLock lock(*mutex_);
    do {
      // The kernel lets go of the lock when its holder dies.
      if (flock(file.descriptor(), LOCK_EX | LOCK_NB) == 0) {
        return AddLocked(path, delta);
      }
      if (errno != EWOULDBLOCK && errno != EINTR) {
        return SystemError("cannot lock", lock_path, errno);
      }
    } while (poll.Pause(*mutex_, *changed_));
    return absl::UnavailableError(
        absl::StrCat("file store: another process holds ", lock_path));
  }

 private:
  // Where the value or counter of `key` lies. Every key has a path of its own:
  // "/" and ":" become characters that no key has, and a long key is cut into
  // folders, whose names end with another such character.
  std::string PathOf(absl::string_view kind, absl::string_view key) const {
    std::string name(key);
    std::replace(name.begin(), name.end(), '/', '%');
    std::replace(name.begin(), name.end(), ':', '+');
    std::string path = absl::StrCat(folder_, "/", kind, ".");
    absl::string_view rest = name;
    for (; rest.size() > kNameBytesMax; rest.remove_prefix(kNameBytesMax)) {
      absl::StrAppend(&path, rest.substr(0, kNameBytesMax), "~/");
    }
    absl::StrAppend(&path, rest);
    return path;
  }

  // Holds the file lock. Calls nothing of the runtime, so that on the simulated
  // one no other task meets the lock.
  absl::StatusOr<int64_t> AddLocked(const std::string& path, int64_t delta) {
    const absl::StatusOr<std::optional<std::string>> text = ReadFile(path);
    if (!text.ok()) return text.status();
    int64_t sum = 0;
    if (text->has_value() && !absl::SimpleAtoi(**text, &sum)) {
      return absl::UnavailableError(absl::StrCat(
          "file store: want a number in ", path, ", got \"", **text, "\""));
    }
    sum += delta;
    if (absl::Status s = Replace(path, absl::StrCat(sum)); !s.ok()) return s;
    return sum;
  }

  absl::Status Replace(const std::string& path, absl::string_view content) {
    std::error_code error;
    std::filesystem::create_directories(
        std::filesystem::path(path).parent_path(), error);
    if (error) return SystemError("cannot make folder of", path, error.value());
    std::string aside = absl::StrCat(folder_, "/aside.XXXXXX");
    const File file(mkostemp(aside.data(), O_CLOEXEC));
    if (!file.is_open()) return SystemError("cannot create", aside, errno);
    absl::Status written = WriteAll(file, aside, content);
    if (written.ok() && std::rename(aside.c_str(), path.c_str()) != 0) {
      written = SystemError("cannot rename to", path, errno);
    }
    if (!written.ok()) unlink(aside.c_str());
    return written;
  }

  Runtime& runtime_;
  const std::string folder_;
  const std::unique_ptr<Mutex> mutex_;
  const std::unique_ptr<Condition> changed_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> NewFileStore(Runtime& runtime,
                                                    absl::string_view folder) {
  if (folder.empty()) {
    return absl::InvalidArgumentError("want the folder of a file store");
  }
  const std::string path(folder);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return SystemError("cannot make folder", path, error.value());
  if (access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    return SystemError("cannot use folder", path, errno);
  }
  return std::make_unique<FileStore>(runtime, path);
}

}  // namespace muonshard
