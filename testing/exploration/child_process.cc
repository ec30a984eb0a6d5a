#include "testing/exploration/child_process.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>
#include <limits>
#include <span>

#include "absl/strings/str_cat.h"

namespace muonshard::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  pid_t process = -1;
  int pipe = -1;            // Read end; -1: closed.
  std::string rest;         // Of a line that has not ended.
  Clock::time_point heard;  // When it began, or last told something.
  // Why it did not start, or was killed; else its end says how it went.
  absl::Status status;
};

absl::Status SystemError(const char* call) {
  return absl::UnavailableError(absl::StrCat(call, ": ", std::strerror(errno)));
}

void WriteAll(int pipe, const std::string& text) {
  for (size_t written = 0; written < text.size();) {
    const ssize_t count =
        write(pipe, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    // Nobody reads any more.
    if (count <= 0) _exit(1);
    written += static_cast<size_t>(count);
  }
}

// `earlier`: children that were started before, whose pipes are not the new
// one's.
void Start(Child& child, std::span<const Child> earlier,
           const std::function<void(const Tell&)>& function) {
  std::array<int, 2> ends;
  if (pipe(ends.data()) != 0) {
    child.status = SystemError("pipe");
    return;
  }
  // What is buffered would be written by both.
  std::cout.flush();
  std::cerr.flush();
  child.process = fork();
  if (child.process < 0) {
    child.status = SystemError("fork");
    close(ends[0]);
    close(ends[1]);
    return;
  }
  if (child.process > 0) {
    close(ends[1]);
    child.pipe = ends[0];
    child.heard = Clock::now();
    return;
  }
  close(ends[0]);
  for (const Child& other : earlier) {
    if (other.pipe >= 0) close(other.pipe);
  }
  // Nobody wants its answer when the caller is gone.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  function([&](const std::string& line) { WriteAll(ends[1], line + "\n"); });
  std::cout.flush();
  std::cerr.flush();
  // Not `exit`: what the caller's process does at its end is not the child's.
  _exit(0);
}

absl::Status AwaitEnd(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) return SystemError("waitpid");
  }
  if (WIFSIGNALED(status)) {
    return absl::InternalError(absl::StrCat("the process was ended by signal ",
                                            WTERMSIG(status), " (",
                                            strsignal(WTERMSIG(status)), ")"));
  }
  if (WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the process ended with exit code ", WEXITSTATUS(status)));
}

void ClosePipe(Child& child) {
  close(child.pipe);
  child.pipe = -1;
}

// Takes what has come; closes the pipe at its end.
template <typename Told>
void Read(Child& child, Told told) {
  std::array<char, 1 << 16> chunk;
  const ssize_t count = read(child.pipe, chunk.data(), chunk.size());
  if (count < 0 && errno == EINTR) return;
  if (count <= 0) return ClosePipe(child);
  child.heard = Clock::now();
  child.rest.append(chunk.data(), static_cast<size_t>(count));
  size_t begin = 0;
  for (size_t end; (end = child.rest.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    told(child.rest.substr(begin, end - begin));
  }
  child.rest.erase(0, begin);
}

// What is left of `silence_max` before the first of the children that are still
// running has been silent for so long.
absl::Duration PatienceLeft(std::span<const Child> children,
                            absl::Duration silence_max) {
  const Clock::time_point now = Clock::now();
  absl::Duration left = silence_max;
  for (const Child& child : children) {
    if (child.pipe < 0) continue;
    left = std::min(left, silence_max - absl::FromChrono(now - child.heard));
  }
  return std::max(left, absl::ZeroDuration());
}

// As `poll` takes it, and not too short; -1: without an end.
int PollMilliseconds(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return -1;
  const int64_t whole =
      absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1)));
  return static_cast<int>(
      std::min<int64_t>(whole, std::numeric_limits<int>::max()));
}

void KillSilent(std::span<Child> children, absl::Duration silence_max) {
  const Clock::time_point now = Clock::now();
  for (Child& child : children) {
    if (child.pipe < 0) continue;
    if (absl::FromChrono(now - child.heard) < silence_max) continue;
    kill(child.process, SIGKILL);
    child.status = absl::DeadlineExceededError(
        absl::StrCat("the process told nothing and did not end for ",
                     absl::FormatDuration(silence_max), ", and was killed"));
    ClosePipe(child);
  }
}

absl::Status End(const Child& child) {
  if (child.process < 0) return child.status;
  const absl::Status end = AwaitEnd(child.process);
  return child.status.ok() ? end : child.status;
}

}  // namespace

std::vector<absl::Status> RunInChildren(
    size_t count, const std::function<void(size_t index, const Tell&)>& child,
    const std::function<void(size_t index, const std::string& line)>& told,
    absl::Duration silence_max) {
  std::vector<Child> children(count);
  for (size_t i = 0; i < count; ++i) {
    Start(children[i], std::span(children).first(i),
          [&](const Tell& tell) { child(i, tell); });
  }
  for (;;) {
    std::vector<pollfd> polled;
    std::vector<size_t> indices;
    for (size_t i = 0; i < count; ++i) {
      if (children[i].pipe < 0) continue;
      polled.push_back(
          {.fd = children[i].pipe, .events = POLLIN, .revents = 0});
      indices.push_back(i);
    }
    if (polled.empty()) break;
    const int patience = PollMilliseconds(PatienceLeft(children, silence_max));
    if (poll(polled.data(), polled.size(), patience) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    for (size_t k = 0; k < polled.size(); ++k) {
      if (polled[k].revents == 0) continue;
      const size_t i = indices[k];
      Read(children[i], [&](const std::string& line) { told(i, line); });
    }
    KillSilent(children, silence_max);
  }
  std::vector<absl::Status> statuses;
  for (const Child& ended : children) statuses.push_back(End(ended));
  return statuses;
}

}  // namespace muonshard::testing
