#include "tools/launcher/rank_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muonshard {
namespace {

struct Pipe {
  Descriptor read;
  Descriptor write;
};

absl::StatusOr<Pipe> NewPipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a pipe");
  }
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

absl::Status CannotStart(const std::string& path, int error) {
  const std::string text =
      absl::StrCat("cannot start \"", path, "\": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(text);
  if (error == EACCES) return absl::PermissionDeniedError(text);
  return absl::FailedPreconditionError(text);
}

// 0, or why not.
int CheckProgram(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return errno;
  if (!S_ISREG(found.st_mode)) return EACCES;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// What the child needs, made before the fork: after it only calls that are safe
// in a signal handler may follow, since another thread may have held a lock.
struct Image {
  const char* path;
  char* const* arguments;
  char* const* variables;
  const sigset_t* signals;
  pid_t parent;
  int in;
  int out;
  int errors;
  int failure;  // Takes the error number; closes when the program runs.
};

[[noreturn]] void BecomeProgram(const Image& image) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A launcher that was gone before then sends no signal.
  if (getppid() != image.parent) _exit(127);
  if (dup2(image.in, STDIN_FILENO) >= 0 &&
      dup2(image.out, STDOUT_FILENO) >= 0 &&
      dup2(image.errors, STDERR_FILENO) >= 0) {
    sigprocmask(SIG_SETMASK, image.signals, nullptr);
    execve(image.path, image.arguments, image.variables);
  }
  const int error = errno;
  // If this fails too the launcher sees a rank that ended with 127.
  [[maybe_unused]] const ssize_t written =
      write(image.failure, &error, sizeof error);
  _exit(127);
}

// 0 once the program runs.
int ReadFailure(int failure) {
  int error = 0;
  ssize_t bytes = 0;
  do {
    bytes = read(failure, &error, sizeof error);
  } while (bytes < 0 && errno == EINTR);
  return bytes == sizeof error ? error : 0;
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& program,
                                        absl::string_view folders) {
  if (absl::StrContains(program, "/")) {
    const int error = CheckProgram(program);
    if (error != 0) return CannotStart(program, error);
    return program;
  }
  int first_error = 0;
  std::string first_path;
  for (const absl::string_view folder : absl::StrSplit(folders, ':')) {
    const std::string path =
        absl::StrCat(folder.empty() ? "." : folder, "/", program);
    const int error = CheckProgram(path);
    if (error == 0) return path;
    // One that is there and cannot be run is more to the point.
    if (error == ENOENT || error == ENOTDIR || first_error != 0) continue;
    first_error = error;
    first_path = path;
  }
  if (first_error != 0) return CannotStart(first_path, first_error);
  return absl::NotFoundError(absl::StrCat("cannot start \"", program,
                                          "\": no such program in the folders "
                                          "of $PATH"));
}

absl::StatusOr<RankProcess> StartRank(const std::string& path,
                                      std::span<const std::string> command,
                                      std::span<const std::string> environment,
                                      const sigset_t& signals) {
  absl::StatusOr<Pipe> out = NewPipe();
  if (!out.ok()) return out.status();
  absl::StatusOr<Pipe> errors = NewPipe();
  if (!errors.ok()) return errors.status();
  absl::StatusOr<Pipe> failure = NewPipe();
  if (!failure.ok()) return failure.status();
  const Descriptor in(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!in.open()) return absl::ErrnoToStatus(errno, "cannot open /dev/null");
  std::vector<std::string> arguments(command.begin(), command.end());
  std::vector<std::string> variables(environment.begin(), environment.end());
  const std::vector<char*> argument_pointers = Pointers(arguments);
  const std::vector<char*> variable_pointers = Pointers(variables);
  const Image image = {.path = path.c_str(),
                       .arguments = argument_pointers.data(),
                       .variables = variable_pointers.data(),
                       .signals = &signals,
                       .parent = getpid(),
                       .in = in.number(),
                       .out = out->write.number(),
                       .errors = errors->write.number(),
                       .failure = failure->write.number()};
  RankProcess process;
  process.id = fork();
  if (process.id == 0) BecomeProgram(image);
  if (process.id < 0) {
    return absl::ErrnoToStatus(errno, "cannot start a process");
  }
  failure->write.Close();
  if (const int error = ReadFailure(failure->read.number()); error != 0) {
    waitpid(process.id, nullptr, 0);
    return CannotStart(path, error);
  }
  process.end =
      Descriptor(static_cast<int>(syscall(SYS_pidfd_open, process.id, 0)));
  if (!process.end.open()) {
    const absl::Status status =
        absl::ErrnoToStatus(errno, "cannot watch a process");
    kill(-process.id, SIGKILL);
    waitpid(process.id, nullptr, 0);
    return status;
  }
  process.out = std::move(out->read);
  process.errors = std::move(errors->read);
  for (const Descriptor* end : {&process.out, &process.errors}) {
    fcntl(end->number(), F_SETFL, O_NONBLOCK);
  }
  return process;
}

}  // namespace muonshard
