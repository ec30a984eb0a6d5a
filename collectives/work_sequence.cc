#include "collectives/work_sequence.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "collectives/runtime/event.h"

namespace muonshard {
namespace {

class WorkSequence final : public Work::State {
 public:
  WorkSequence(Runtime& runtime, std::vector<Work> levels, absl::Status end)
      : runtime_(runtime),
        levels_(std::move(levels)),
        end_(std::move(end)),
        mutex_(runtime.NewMutex()) {}

  absl::Status Wait(absl::Time deadline) override {
    absl::Status first;
    for (const Work& level : levels_) {
      absl::Status status = level.Wait(deadline);
      if (!level.done()) return status;
      // It may have ended after the wait expired.
      if (!status.ok()) status = level.Wait(absl::InfinitePast());
      first.Update(status);
    }
    first.Update(end_);
    return first;
  }

  bool done() const override {
    return std::all_of(levels_.begin(), levels_.end(),
                       [](const Work& level) { return level.done(); });
  }

  Event event() override {
    std::shared_ptr<EventSource> source;
    bool is_new = false;
    {
      const MutexLock lock(*mutex_);
      is_new = source_ == nullptr;
      if (is_new) source_ = std::make_shared<EventSource>(runtime_);
      source = source_;
    }
    // A work that has ended has an event that has happened, even while the
    // callbacks of its levels are on their way.
    if (done()) {
      source->Complete(Wait(absl::InfinitePast()));
    } else if (is_new) {
      CompleteBehind(levels_, 0, end_, absl::OkStatus(), source);
    }
    return source->event();
  }

 private:
  // Completes `source` when levels[next] and those after it have ended.
  static void CompleteBehind(std::vector<Work> levels, size_t next,
                             absl::Status end, absl::Status first,
                             std::shared_ptr<EventSource> source) {
    if (next == levels.size()) {
      first.Update(end);
      source->Complete(std::move(first));
      return;
    }
    const Event event = levels[next].event();
    event.Then([levels = std::move(levels), next, end = std::move(end),
                first = std::move(first), source = std::move(source)](
                   const absl::Status& status) mutable {
      first.Update(status);
      CompleteBehind(std::move(levels), next + 1, std::move(end),
                     std::move(first), std::move(source));
    });
  }

  Runtime& runtime_;
  const std::vector<Work> levels_;
  const absl::Status end_;
  const std::unique_ptr<Mutex> mutex_;
  // Guarded by mutex_; made when an event is asked for.
  std::shared_ptr<EventSource> source_;
};

}  // namespace

Work SequenceOf(Runtime& runtime, std::vector<Work> levels, absl::Status end) {
  return Work(std::make_shared<WorkSequence>(runtime, std::move(levels),
                                             std::move(end)));
}

}  // namespace muonshard
