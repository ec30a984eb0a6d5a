// Takes the signals that ask a program to end, as something to poll.
//
// Threads      Made before any other thread, which would take the signals
//              instead. Those that the program was started to ignore stay so,
//              but for the one that tells of children: while there is an inbox,
//              they can be waited for.

#ifndef TOOLS_LAUNCHER_SIGNAL_INBOX_H_
#define TOOLS_LAUNCHER_SIGNAL_INBOX_H_

#include <signal.h>

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "tools/launcher/descriptor.h"

namespace muonshard {

class SignalInbox {
 public:
  static absl::StatusOr<std::unique_ptr<SignalInbox>> Create();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;
  ~SignalInbox();

  // Readable when a signal has come.
  int number() const { return descriptor_.number(); }
  // The oldest that was not taken.
  std::optional<int> Take();

  // What was blocked before.
  const sigset_t& blocked_before() const { return before_; }

 private:
  SignalInbox() = default;

  Descriptor descriptor_;
  sigset_t before_ = {};
  struct sigaction children_before_ = {};
};

}  // namespace muonshard

#endif  // TOOLS_LAUNCHER_SIGNAL_INBOX_H_
