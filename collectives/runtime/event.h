// Something that happens once, with a Status: the end of an operation.
//
// An Event is a handle; copies are the same event. An EventSource makes it
// happen. Work, streams and plugins meet in events, so that none needs to know
// the others.
//
// Ordering     What the source did before `Complete` is visible to whoever saw
//              the event done, and to its callbacks.
// Threads      All methods from any task.
// Memory       Handles share the state; it lives as long as the last handle.
// Errors       `Wait` returns kDeadlineExceeded while the event is still to
//              come; `done()` tells this apart from an event whose own status
//              is kDeadlineExceeded. A source that is destroyed before it
//              completed completes with kAborted.

#ifndef COLLECTIVES_RUNTIME_EVENT_H_
#define COLLECTIVES_RUNTIME_EVENT_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"

namespace muonshard {

class Event {
 public:
  using Callback = absl::AnyInvocable<void(const absl::Status&)>;

  // An event that has happened, with OK.
  Event();

  bool done() const;

  // Blocks until the event has happened or `deadline` passes.
  absl::Status Wait(absl::Time deadline) const;

  // Runs `callback` once with the event's status: now, in this call, if the
  // event has happened; else in the task that completes it, before `Complete`
  // returns. A callback does not block.
  void Then(Callback callback) const;

  // Shared by handles and source; defined in event.cc.
  struct State;

 private:
  friend class EventSource;
  explicit Event(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;  // Null: happened, with OK.
};

class EventSource {
 public:
  explicit EventSource(Runtime& runtime);
  ~EventSource();
  EventSource(EventSource&&) noexcept;
  EventSource& operator=(EventSource&&) = delete;

  Event event() const;

  // The first call decides; later calls do nothing.
  void Complete(absl::Status status);

 private:
  std::shared_ptr<Event::State> state_;  // Null after a move.
};

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_EVENT_H_
