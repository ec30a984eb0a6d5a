#include "tools/launcher/supervisor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muonshard {
namespace {

constexpr int kSignalled = 128;  // Added to a signal in an exit status.

std::string SignalText(int signal) {
  return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
}

}  // namespace

Supervisor::Supervisor(const SupervisorOptions& options, SignalInbox& signals,
                       std::ostream& out, std::ostream& errors)
    : options_(options), signals_(signals), out_(out), errors_(errors) {}

Supervisor::~Supervisor() {
  SignalRunning(SIGKILL);
  for (const RankState& rank : ranks_) {
    if (!rank.ended) waitpid(rank.process.id, nullptr, 0);
  }
}

void Supervisor::Add(RankProcess process) {
  const std::string prefix =
      options_.prefix ? absl::StrCat("[", ranks_.size(), "] ") : "";
  ranks_.push_back({.process = std::move(process),
                    .out = LineWriter(out_, prefix),
                    .errors = LineWriter(errors_, prefix)});
}

int Supervisor::Run() {
  std::vector<pollfd> polled;
  while (AnyLeft()) {
    Poll(polled);
    TakeSignals();
    for (RankState& rank : ranks_) {
      Read(rank.process.out, rank.out);
      Read(rank.process.errors, rank.errors);
    }
    for (const End& end : TakeEnds()) Note(end);
    if (!AnyRunning() && !grace_end_.has_value()) StartGrace();
    EndGrace();
  }
  for (RankState& rank : ranks_) {
    rank.out.Finish();
    rank.errors.Finish();
  }
  return exit_status_;
}

bool Supervisor::AnyRunning() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const RankState& rank) { return !rank.ended; });
}

bool Supervisor::AnyLeft() const {
  return AnyRunning() ||
         std::any_of(ranks_.begin(), ranks_.end(), [](const RankState& rank) {
           return rank.process.out.open() || rank.process.errors.open();
         });
}

void Supervisor::Poll(std::vector<pollfd>& polled) {
  polled.assign(1, {.fd = signals_.number(), .events = POLLIN});
  for (const RankState& rank : ranks_) {
    for (const Descriptor* descriptor :
         {&rank.process.end, &rank.process.out, &rank.process.errors}) {
      polled.push_back({.fd = descriptor->number(), .events = POLLIN});
    }
  }
  int timeout_ms = -1;
  if (grace_end_.has_value()) {
    const std::chrono::duration<double, std::milli> left =
        *grace_end_ - Clock::now();
    timeout_ms = static_cast<int>(std::ceil(std::max(0.0, left.count())));
  }
  // What ends it early is found by whoever looks next.
  poll(polled.data(), polled.size(), timeout_ms);
}

void Supervisor::TakeSignals() {
  while (const std::optional<int> signal = signals_.Take()) PassOn(*signal);
}

void Supervisor::PassOn(int signal) {
  if (exit_status_ == 0) exit_status_ = kSignalled + signal;
  if (ending_) {
    errors_ << "launch: got " << SignalText(signal)
            << " while ranks end; killing them" << std::endl;
    SignalRunning(SIGKILL);
    return;
  }
  errors_ << "launch: got " << SignalText(signal)
          << "; passing it on to all ranks" << std::endl;
  SignalRunning(signal);
  StartGrace();
}

void Supervisor::Read(Descriptor& from, LineWriter& to) {
  // All that a pipe holds, and not for ever what a rank writes without pause.
  constexpr int kReads = 16;
  char bytes[65536];
  for (int i = 0; i < kReads && from.open(); ++i) {
    const ssize_t got = read(from.number(), bytes, sizeof bytes);
    if (got > 0) {
      to.Add(absl::string_view(bytes, static_cast<size_t>(got)));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      from.Close();
      to.Finish();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

std::vector<Supervisor::End> Supervisor::TakeEnds() {
  std::vector<End> ends;
  // Again after each that is found: another may have ended before it, because
  // of which it ended, and after it was looked at.
  for (bool found = true; found;) {
    found = false;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const std::optional<End> end = TakeEnd(r);
      if (!end.has_value()) continue;
      ends.push_back(*end);
      found = true;
    }
  }
  std::stable_partition(ends.begin(), ends.end(),
                        [](const End& end) { return end.by_signal; });
  return ends;
}

std::optional<Supervisor::End> Supervisor::TakeEnd(size_t index) {
  RankState& rank = ranks_[index];
  pollfd polled = {.fd = rank.process.end.number(), .events = POLLIN};
  if (rank.ended || poll(&polled, 1, 0) != 1) return std::nullopt;
  // As long as it is not reaped, no other group can have its number.
  kill(-rank.process.id, SIGKILL);
  int status = 0;
  if (waitpid(rank.process.id, &status, 0) != rank.process.id) {
    return std::nullopt;
  }
  rank.ended = true;
  rank.process.end.Close();
  // What it wrote between the last look and its end.
  Read(rank.process.out, rank.out);
  Read(rank.process.errors, rank.errors);
  const bool by_signal = WIFSIGNALED(status);
  return End{.rank = static_cast<int32_t>(index),
             .by_signal = by_signal,
             .value = by_signal ? WTERMSIG(status) : WEXITSTATUS(status)};
}

void Supervisor::Note(const End& end) {
  const bool failed = end.by_signal || end.value != 0;
  // Later ones follow from the first, or from our own signals.
  if (!failed || ending_) return;
  const bool others = AnyRunning();
  errors_ << "launch: rank " << end.rank << " (process "
          << ranks_[static_cast<size_t>(end.rank)].process.id << ") "
          << (end.by_signal
                  ? absl::StrCat("was killed by ", SignalText(end.value))
                  : absl::StrCat("ended with exit status ", end.value))
          << (others && !options_.keep_going ? "; ending the other ranks" : "")
          << std::endl;
  if (exit_status_ == 0) {
    exit_status_ = end.by_signal ? kSignalled + end.value : end.value;
  }
  if (options_.keep_going) return;
  SignalRunning(SIGTERM);
  StartGrace();
}

void Supervisor::SignalRunning(int signal) {
  for (const RankState& rank : ranks_) {
    if (rank.ended) continue;
    kill(-rank.process.id, signal);
    // A stopped process takes no other signal.
    kill(-rank.process.id, SIGCONT);
  }
}

void Supervisor::StartGrace() {
  ending_ = true;
  grace_end_ = Clock::now() +
               std::chrono::duration_cast<Clock::duration>(options_.grace);
}

void Supervisor::EndGrace() {
  if (!grace_end_.has_value() || Clock::now() < *grace_end_) return;
  if (!AnyRunning()) {
    for (RankState& rank : ranks_) {
      rank.process.out.Close();
      rank.process.errors.Close();
    }
    return;
  }
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].ended) continue;
    errors_ << "launch: rank " << r << " (process " << ranks_[r].process.id
            << ") did not end within " << options_.grace.count()
            << " s; killing it" << std::endl;
  }
  SignalRunning(SIGKILL);
  // Anew, for what may hold the pipes after their end.
  grace_end_.reset();
}

}  // namespace muonshard
