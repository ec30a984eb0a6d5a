#include "tools/launcher/signal_inbox.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"

namespace muonshard {

absl::StatusOr<std::unique_ptr<SignalInbox>> SignalInbox::Create() {
  std::unique_ptr<SignalInbox> inbox(new SignalInbox);
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&taken, signal);
  }
  inbox->descriptor_ =
      Descriptor(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!inbox->descriptor_.open()) {
    return absl::ErrnoToStatus(errno, "cannot take signals");
  }
  pthread_sigmask(SIG_BLOCK, &taken, &inbox->before_);
  // Or, where whoever started this program ignores it, the system would forget
  // how ranks ended, and their ends would be waited for ever.
  struct sigaction of_children = {};
  of_children.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &of_children, &inbox->children_before_);
  return inbox;
}

SignalInbox::~SignalInbox() {
  if (!descriptor_.open()) return;
  // One that came too late must not end the program after all.
  while (Take().has_value()) {
  }
  sigaction(SIGCHLD, &children_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalInbox::Take() {
  signalfd_siginfo info = {};
  if (read(descriptor_.number(), &info, sizeof info) !=
      static_cast<ssize_t>(sizeof info)) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

}  // namespace muonshard
