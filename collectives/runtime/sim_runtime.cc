#include "collectives/runtime/sim_runtime.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/runtime/log_line.h"
#include "collectives/runtime/sim_engine.h"
#include "collectives/runtime/sim_scheduler.h"
#include "collectives/runtime/sim_task.h"

namespace muonshard {
namespace {

class SimMutex final : public Mutex {
 public:
  explicit SimMutex(SimEngine& engine)
      : engine_(engine),
        queue_{.kind = SimWaitQueue::Kind::kMutex, .id = engine.NewObjectId()} {
  }

  void Lock() override {
    engine_.ChoicePoint(SimCall::kLock);
    LockWithoutChoice();
  }

  void Unlock() override {
    UnlockWithoutChoice();
    engine_.ChoicePoint(SimCall::kUnlock);
  }

  void LockWithoutChoice() {
    // One that was woken may find that another task was faster.
    while (queue_.holder != 0) {
      const bool woken =
          engine_.Block(SimCall::kLock, queue_, absl::InfiniteFuture());
      // A deadlock is broken by letting a second task in.
      if (!woken) break;
    }
    queue_.holder = engine_.current().id;
  }

  void UnlockWithoutChoice() {
    if (queue_.holder != engine_.current().id) {
      // After a broken deadlock the first holder comes here too.
      if (!engine_.deadlocked()) {
        engine_.NoteError(absl::StrCat("\"", engine_.current().name,
                                       "\" unlocked mutex ", queue_.id,
                                       ", which it did not hold"));
      }
      return;
    }
    queue_.holder = 0;
    engine_.WakeOne(queue_);
  }

 private:
  SimEngine& engine_;
  SimWaitQueue queue_;
};

class SimCondition final : public Condition {
 public:
  explicit SimCondition(SimEngine& engine)
      : engine_(engine),
        queue_{.kind = SimWaitQueue::Kind::kCondition,
               .id = engine.NewObjectId()} {}

  bool Wait(Mutex& mutex, absl::Time deadline) override {
    SimMutex& sim_mutex = static_cast<SimMutex&>(mutex);
    sim_mutex.UnlockWithoutChoice();
    bool woken = false;
    if (deadline <= engine_.now()) {
      // A timer would be due only when nothing else can run.
      engine_.ChoicePoint(SimCall::kWait);
    } else {
      woken = engine_.Block(SimCall::kWait, queue_, deadline);
    }
    sim_mutex.LockWithoutChoice();
    return woken;
  }

  void NotifyOne() override {
    engine_.WakeOne(queue_);
    engine_.ChoicePoint(SimCall::kNotify);
  }

  void NotifyAll() override {
    engine_.WakeAll(queue_);
    engine_.ChoicePoint(SimCall::kNotify);
  }

 private:
  SimEngine& engine_;
  SimWaitQueue queue_;
};

class SimTaskHandle final : public Task {
 public:
  SimTaskHandle(SimEngine& engine, const SimTask& task)
      : engine_(engine), id_(task.id), name_(task.name) {}

  ~SimTaskHandle() override {
    if (!joined_) {
      engine_.NoteError(
          absl::StrCat("\"", name_, "\" was destroyed before it was joined"));
    }
  }

  void Join() override {
    engine_.ChoicePoint(SimCall::kJoin);
    SimTask& task = engine_.task(id_);
    while (!task.ended) {
      engine_.Block(SimCall::kJoin, task.joiners, absl::InfiniteFuture());
    }
    engine_.ForgetTask(id_);
    joined_ = true;
  }

 private:
  SimEngine& engine_;
  const uint64_t id_;
  const std::string name_;
  bool joined_ = false;
};

class SeededSimRuntime final : public SimRuntime {
 public:
  explicit SeededSimRuntime(const SimOptions& options)
      : own_scheduler_(options.scheduler == nullptr
                           ? NewRandomScheduler(options.seed)
                           : nullptr),
        engine_(
            options.scheduler == nullptr ? *own_scheduler_ : *options.scheduler,
            options.stack_bytes, options.choice_count_max) {}

  absl::Status Run(absl::AnyInvocable<void()> main) override {
    return engine_.Run(std::move(main));
  }

  uint64_t trace_hash() const override { return engine_.trace_hash(); }
  uint64_t choice_count() const override { return engine_.choice_count(); }

  absl::Time Now() override {
    engine_.ChoicePoint(SimCall::kNow);
    return engine_.now();
  }

  std::unique_ptr<Mutex> NewMutex() override {
    return std::make_unique<SimMutex>(engine_);
  }

  std::unique_ptr<Condition> NewCondition() override {
    return std::make_unique<SimCondition>(engine_);
  }

  std::unique_ptr<Task> Start(absl::string_view name, TaskKind kind,
                              absl::AnyInvocable<void()> function) override {
    auto handle = std::make_unique<SimTaskHandle>(
        engine_, engine_.AddTask(name, kind, std::move(function)));
    engine_.ChoicePoint(SimCall::kStart);
    return handle;
  }

  void Yield() override { engine_.ChoicePoint(SimCall::kYield); }

  uint64_t CurrentTaskId() override { return engine_.current().id; }

  void Log(int32_t severity, absl::string_view text) override {
    WriteLogLine(
        severity,
        absl::StrCat(absl::FormatDuration(engine_.now() - absl::UnixEpoch()),
                     " ", engine_.current().name, ": ", text));
  }

 private:
  const std::unique_ptr<SimScheduler> own_scheduler_;
  SimEngine engine_;
};

}  // namespace

std::unique_ptr<SimRuntime> SimRuntime::Create(const SimOptions& options) {
  return std::make_unique<SeededSimRuntime>(options);
}

}  // namespace muonshard
