#include "collectives/runtime/threads_runtime.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "collectives/runtime/log_line.h"

namespace muonshard {
namespace {

using SteadyClock = std::chrono::steady_clock;

class MonotonicClock {
 public:
  absl::Time Now() const {
    return wall_start_ + absl::FromChrono(SteadyClock::now() - steady_start_);
  }

 private:
  const absl::Time wall_start_ = absl::Now();
  const SteadyClock::time_point steady_start_ = SteadyClock::now();
};

class ThreadsMutex final : public Mutex {
 public:
  void Lock() override { mutex_.lock(); }
  void Unlock() override { mutex_.unlock(); }

  std::mutex& native() { return mutex_; }

 private:
  std::mutex mutex_;
};

class ThreadsCondition final : public Condition {
 public:
  explicit ThreadsCondition(const MonotonicClock& clock) : clock_(clock) {}

  bool Wait(Mutex& mutex, absl::Time deadline) override {
    // The caller holds the mutex before and after; the lock object only lends
    // it to the wait.
    std::unique_lock<std::mutex> lock(
        static_cast<ThreadsMutex&>(mutex).native(), std::adopt_lock);
    const bool in_time = WaitWith(lock, deadline);
    lock.release();
    return in_time;
  }

  void NotifyOne() override { condition_.notify_one(); }
  void NotifyAll() override { condition_.notify_all(); }

 private:
  bool WaitWith(std::unique_lock<std::mutex>& lock, absl::Time deadline) {
    if (deadline == absl::InfiniteFuture()) {
      condition_.wait(lock);
      return true;
    }
    // A far deadline would overflow the clock's 64 bits. A day later the wait
    // ends without a cause, as any wait may.
    const absl::Duration left = std::clamp(
        deadline - clock_.Now(), absl::ZeroDuration(), absl::Hours(24));
    const std::cv_status status = condition_.wait_until(
        lock, SteadyClock::now() + absl::ToChronoNanoseconds(left));
    return status == std::cv_status::no_timeout || clock_.Now() < deadline;
  }

  const MonotonicClock& clock_;
  std::condition_variable condition_;
};

class ThreadsTask final : public Task {
 public:
  explicit ThreadsTask(std::thread thread) : thread_(std::move(thread)) {}

  void Join() override { thread_.join(); }

 private:
  std::thread thread_;
};

void NameThisThread(std::string name) {
  constexpr size_t kNameBytesMax = 15;  // Of Linux, without the final zero.
  name.resize(std::min(name.size(), kNameBytesMax));
  pthread_setname_np(pthread_self(), name.c_str());
}

class ThreadsRuntime final : public Runtime {
 public:
  absl::Time Now() override { return clock_.Now(); }

  std::unique_ptr<Mutex> NewMutex() override {
    return std::make_unique<ThreadsMutex>();
  }

  std::unique_ptr<Condition> NewCondition() override {
    return std::make_unique<ThreadsCondition>(clock_);
  }

  std::unique_ptr<Task> Start(absl::string_view name, TaskKind,
                              absl::AnyInvocable<void()> function) override {
    return std::make_unique<ThreadsTask>(std::thread(
        [name = std::string(name), function = std::move(function)]() mutable {
          NameThisThread(std::move(name));
          function();
        }));
  }

  void Yield() override { std::this_thread::yield(); }

  uint64_t CurrentTaskId() override {
    static std::atomic<uint64_t> next{1};
    thread_local const uint64_t id =
        next.fetch_add(1, std::memory_order_relaxed);
    return id;
  }

  void Log(int32_t severity, absl::string_view text) override {
    WriteLogLine(severity, text);
  }

 private:
  const MonotonicClock clock_;
};

}  // namespace

std::unique_ptr<Runtime> NewThreadsRuntime() {
  return std::make_unique<ThreadsRuntime>();
}

}  // namespace muonshard
