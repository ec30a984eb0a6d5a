// A Runtime that acts like another, keeps what is logged, and counts how often
// its clock is read.

#ifndef COLLECTIVES_TESTING_RECORDING_RUNTIME_H_
#define COLLECTIVES_TESTING_RECORDING_RUNTIME_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"

namespace muonshard::testing {

class RecordingRuntime final : public Runtime {
 public:
  explicit RecordingRuntime(std::unique_ptr<Runtime> inner)
      : inner_(std::move(inner)), mutex_(inner_->NewMutex()) {}

  // The lines logged since the last call.
  std::vector<std::string> TakeLines() {
    const MutexLock lock(*mutex_);
    return std::exchange(lines_, {});
  }

  int64_t now_count() const { return now_count_; }

  absl::Time Now() override {
    ++now_count_;
    return inner_->Now();
  }
  std::unique_ptr<Mutex> NewMutex() override { return inner_->NewMutex(); }
  std::unique_ptr<Condition> NewCondition() override {
    return inner_->NewCondition();
  }
  std::unique_ptr<Task> Start(absl::string_view name, TaskKind kind,
                              absl::AnyInvocable<void()> function) override {
    return inner_->Start(name, kind, std::move(function));
  }
  void Yield() override { inner_->Yield(); }
  uint64_t CurrentTaskId() override { return inner_->CurrentTaskId(); }
  void Log(int32_t severity, absl::string_view text) override {
    const MutexLock lock(*mutex_);
    lines_.push_back(std::to_string(severity) + " " + std::string(text));
  }

 private:
  const std::unique_ptr<Runtime> inner_;
  const std::unique_ptr<Mutex> mutex_;
  std::vector<std::string> lines_;  // Guarded by mutex_.
  std::atomic<int64_t> now_count_ = 0;
};

}  // namespace muonshard::testing

#endif  // COLLECTIVES_TESTING_RECORDING_RUNTIME_H_
