#include "collectives/runtime/event.h"

#include <optional>
#include <utility>
#include <vector>

namespace muonshard {

struct Event::State {
  explicit State(Runtime& runtime)
      : mutex(runtime.NewMutex()), happened(runtime.NewCondition()) {}

  const std::unique_ptr<Mutex> mutex;
  const std::unique_ptr<Condition> happened;
  // Empty until the event has happened, then never changed.
  std::optional<absl::Status> status;
  std::vector<Callback> callbacks;
};

Event::Event() = default;

Event::Event(std::shared_ptr<State> state) : state_(std::move(state)) {}

bool Event::done() const {
  if (state_ == nullptr) return true;
  MutexLock lock(*state_->mutex);
  return state_->status.has_value();
}

absl::Status Event::Wait(absl::Time deadline) const {
  if (state_ == nullptr) return absl::OkStatus();
  MutexLock lock(*state_->mutex);
  while (!state_->status.has_value()) {
    const bool in_time = state_->happened->Wait(*state_->mutex, deadline);
    if (!in_time && !state_->status.has_value()) {
      return absl::DeadlineExceededError(
          "the event had not happened when the deadline passed");
    }
  }
  return *state_->status;
}

void Event::Then(Callback callback) const {
  if (state_ == nullptr) {
    callback(absl::OkStatus());
    return;
  }
  {
    MutexLock lock(*state_->mutex);
    if (!state_->status.has_value()) {
      state_->callbacks.push_back(std::move(callback));
      return;
    }
  }
  callback(*state_->status);
}

EventSource::EventSource(Runtime& runtime)
    : state_(std::make_shared<Event::State>(runtime)) {}

EventSource::~EventSource() {
  Complete(absl::AbortedError(
      "the source of the event was destroyed before it completed"));
}

EventSource::EventSource(EventSource&&) noexcept = default;

Event EventSource::event() const { return Event(state_); }

void EventSource::Complete(absl::Status status) {
  // Whoever sees the event done may destroy this source while the callbacks
  // still run.
  const std::shared_ptr<Event::State> state = state_;
  if (state == nullptr) return;
  std::vector<Event::Callback> callbacks;
  {
    MutexLock lock(*state->mutex);
    if (state->status.has_value()) return;
    state->status = std::move(status);
    callbacks.swap(state->callbacks);
    state->happened->NotifyAll();
  }
  for (Event::Callback& callback : callbacks) callback(*state->status);
}

}  // namespace muonshard
