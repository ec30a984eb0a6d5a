// An ordered queue of host work: what a CUDA stream is to a device.
//
// An operation starts when every earlier one of its stream has ended. It is
// given the stream's status, `upstream`: OK, or the first error that an
// earlier operation or awaited event left behind, and what it returns is the
// stream's status from then on. So an error flows along a stream like a value;
// an operation that does not want to run behind an error returns `upstream`
// untouched, and one that must run all the same (an update that reads an
// aborted control word as "skip") decides for itself.
//
// Ordering     As enqueued, within one stream. Streams order one another only
//              through events.
// Threads      All methods from any task. Operations run on the stream's own
//              task, or inside `Synchronize`, one at a time. One that
//              `Synchronize` runs is not cut short by its deadline.
// Memory       The destructor runs what is queued, then returns. An operation
//              never destroys its own stream.
// Errors       `Synchronize` returns the stream's status, or kDeadlineExceeded
//              when the deadline passed first. An operation that synchronizes
//              its own stream gets kFailedPrecondition.

#ifndef COLLECTIVES_RUNTIME_STREAM_H_
#define COLLECTIVES_RUNTIME_STREAM_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/runtime.h"

namespace muonshard {

class Stream {
 public:
  using Operation = absl::AnyInvocable<absl::Status(absl::Status upstream)>;

  // `name` appears in reports. The stream starts no task before the first
  // operation that cannot run at once.
  Stream(Runtime& runtime, absl::string_view name);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Appends `operation`; never blocks.
  void Enqueue(Operation operation);

  // Holds what is enqueued later until `event` has happened. An error of the
  // event becomes the stream's status, unless it has one.
  void WaitFor(const Event& event);

  // An event that happens when all that is enqueued so far has ended, with the
  // stream's status of that moment.
  Event Record();

  // Waits until the stream is empty.
  absl::Status Synchronize(absl::Time deadline);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_STREAM_H_
