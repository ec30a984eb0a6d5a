// One operation in flight.
//
// A Work is a handle; copies are the same operation. It ends once, with one
// Status, and keeps it. The buffers of the operation belong to it until then.
//
// Threads      All methods from any task.
// Memory       Dropping the last handle neither cancels nor waits.
// Errors       What the operation ended with: kOk, or an error that names
//              rank, operation and label; see collective.h.

#ifndef COLLECTIVES_WORK_H_
#define COLLECTIVES_WORK_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/runtime/event.h"

namespace muonshard {

class Work {
 public:
  // What is behind a handle: a plugin's work, or several.
  class State {
   public:
    virtual ~State() = default;
    virtual absl::Status Wait(absl::Time deadline) = 0;
    virtual bool done() const = 0;
    virtual Event event() = 0;
  };

  // A work that has ended, with OK.
  Work() = default;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Blocks until the operation ends or `deadline` passes, and moves it along
  // meanwhile. kDeadlineExceeded while `done()` is false means that this wait
  // expired and the operation goes on.
  absl::Status Wait(absl::Time deadline) const {
    return state_ == nullptr ? absl::OkStatus() : state_->Wait(deadline);
  }

  bool done() const { return state_ == nullptr || state_->done(); }

  // Happens when the operation ends, with its status. This is how a Work is
  // put before a Stream or before another call.
  Event event() const { return state_ == nullptr ? Event() : state_->event(); }

 private:
  std::shared_ptr<State> state_;
};

// What a call ended with: the error that refused it, or what its work ended
// with. There is no deadline to give, because the caller's buffers are the
// operation's until it ends and may not be freed by a wait that gave up; the
// deadline of the call itself is what ends it.
inline absl::Status AwaitEnd(const absl::StatusOr<Work>& work) {
  return work.ok() ? work->Wait(absl::InfiniteFuture()) : work.status();
}

}  // namespace muonshard

#endif  // COLLECTIVES_WORK_H_
