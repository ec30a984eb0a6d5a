#include "collectives/runtime/stream.h"

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

// An event that the stream waits for.
struct Hold {
  bool happened = false;
  absl::Status status;
};

// What is queued: an operation, a wait for an event, or an event to complete.
using Item =
    std::variant<Stream::Operation, std::shared_ptr<Hold>, EventSource>;

}  // namespace

// Shared with the callbacks of the events that the stream waits for. All
// methods are called with `mutex` held.
struct Stream::State {
  State(Runtime& stream_runtime, absl::string_view stream_name)
      : runtime(stream_runtime),
        name(stream_name),
        mutex(runtime.NewMutex()),
        changed(runtime.NewCondition()) {}

  bool idle() const { return queue.empty() && runner == 0; }

  // Whether the front of the queue can run now.
  bool ready() const {
    if (queue.empty() || runner != 0) return false;
    const auto* hold = std::get_if<std::shared_ptr<Hold>>(&queue.front());
    return hold == nullptr || (*hold)->happened;
  }

  void Push(Item item);

  // Runs the front of the queue, which is ready. Releases `mutex` meanwhile.
  void RunFront();

  // The stream's own task: runs the queue until the stream is destroyed.
  void Work();

  // Ends the wait at the front of the queue without its event.
  void GiveUpHold();

  Runtime& runtime;
  const std::string name;
  const std::unique_ptr<Mutex> mutex;
  const std::unique_ptr<Condition> changed;
  std::deque<Item> queue;
  absl::Status status;
  uint64_t runner = 0;  // The task that runs an item; 0: none.
  bool closing = false;
  std::unique_ptr<Task> worker;
};

void Stream::State::Push(Item item) {
  queue.push_back(std::move(item));
  if (worker == nullptr) {
    worker = runtime.Start(name, TaskKind::kService, [this] {
      MutexLock lock(*mutex);
      Work();
    });
  }
  changed->NotifyAll();
}

void Stream::State::RunFront() {
  Item item = std::move(queue.front());
  queue.pop_front();
  if (auto* hold = std::get_if<std::shared_ptr<Hold>>(&item)) {
    status.Update((*hold)->status);
  } else {
    absl::Status result = status;
    runner = runtime.CurrentTaskId();
    mutex->Unlock();
    if (auto* operation = std::get_if<Operation>(&item)) {
      result = (*operation)(std::move(result));
      // What the operation holds goes before it counts as ended.
      *operation = nullptr;
    } else {
      std::get<EventSource>(item).Complete(result);
    }
    mutex->Lock();
    status = std::move(result);
    runner = 0;
  }
  changed->NotifyAll();
}

void Stream::State::Work() {
  while (!closing || !idle()) {
    if (ready()) {
      RunFront();
    } else if (!changed->Wait(*mutex, absl::InfiniteFuture()) && closing) {
      GiveUpHold();
    }
  }
}

void Stream::State::GiveUpHold() {
  // The runtime has ended a wait that has no end: the event will not happen,
  // and the destructor waits for what is queued behind it.
  if (queue.empty() || ready() || runner != 0) return;
  Hold& hold = *std::get<std::shared_ptr<Hold>>(queue.front());
  hold.happened = true;
  hold.status = absl::DeadlineExceededError(absl::StrCat(
      "stream \"", name, "\" waits for an event that cannot happen"));
}

Stream::Stream(Runtime& runtime, absl::string_view name)
    : state_(std::make_shared<State>(runtime, name)) {}

Stream::~Stream() {
  {
    MutexLock lock(*state_->mutex);
    state_->closing = true;
    state_->changed->NotifyAll();
  }
  // Without a task nothing was ever queued.
  if (state_->worker != nullptr) state_->worker->Join();
}

void Stream::Enqueue(Operation operation) {
  MutexLock lock(*state_->mutex);
  state_->Push(std::move(operation));
}

void Stream::WaitFor(const Event& event) {
  const bool happened = event.done();
  auto hold = std::make_shared<Hold>();
  hold->happened = happened;
  if (happened) hold->status = event.Wait(absl::InfinitePast());
  {
    MutexLock lock(*state_->mutex);
    if (happened && state_->idle()) {
      state_->status.Update(hold->status);
      return;
    }
    state_->Push(hold);
  }
  if (happened) return;
  event.Then([state = state_, hold](const absl::Status& status) {
    MutexLock lock(*state->mutex);
    hold->happened = true;
    hold->status = status;
    state->changed->NotifyAll();
  });
}

Event Stream::Record() {
  EventSource source(state_->runtime);
  Event event = source.event();
  absl::Status status;
  {
    MutexLock lock(*state_->mutex);
    if (!state_->idle()) {
      state_->Push(std::move(source));
      return event;
    }
    status = state_->status;
  }
  source.Complete(std::move(status));
  return event;
}

absl::Status Stream::Synchronize(absl::Time deadline) {
  State& state = *state_;
  MutexLock lock(*state.mutex);
  if (state.runner == state.runtime.CurrentTaskId()) {
    return absl::FailedPreconditionError(
        absl::StrCat("an operation of stream \"", state.name,
                     "\" would wait for its own end"));
  }
  while (!state.idle()) {
    if (state.ready() && state.runtime.Now() < deadline) {
      state.RunFront();
    } else if (!state.changed->Wait(*state.mutex, deadline) && !state.idle()) {
      return absl::DeadlineExceededError(
          absl::StrCat("stream \"", state.name,
                       "\" still had work when the deadline passed, ",
                       state.queue.size(), " items queued"));
    }
  }
  return state.status;
}

}  // namespace muonshard
