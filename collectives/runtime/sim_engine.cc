#include "collectives/runtime/sim_engine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muonshard {
namespace {

// A program that waits again after each broken deadlock would do so for ever.
constexpr int64_t kDeadlockCountMax = 64;

}  // namespace

SimEngine::SimEngine(SimScheduler& scheduler, size_t stack_bytes,
                     uint64_t choice_count_max)
    : scheduler_(scheduler),
      choice_count_max_(choice_count_max),
      stacks_(stack_bytes) {}

absl::Status SimEngine::Run(absl::AnyInvocable<void()> main) {
  if (current_ != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("Run was called inside Run, by \"", current_->name, "\""));
  }
  errors_.clear();
  deadlock_count_ = 0;
  gave_up_ = false;
  root_.emplace();
  AddTask("main", TaskKind::kProgram, std::move(main));
  if (SimTask* first = ChooseNext(SimCall::kStart)) SwitchTo(first);
  AbandonTasks();
  if (errors_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrJoin(errors_, "\n"));
}

SimTask& SimEngine::AddTask(absl::string_view name, TaskKind kind,
                            absl::AnyInvocable<void()> function) {
  const uint64_t id = tasks_.size() + 1;
  tasks_.push_back(std::make_unique<SimTask>(
      SimTask{.engine = this,
              .id = id,
              .name = std::string(name),
              .kind = kind,
              .function = std::move(function),
              .joiners = {.kind = SimWaitQueue::Kind::kJoin, .id = id}}));
  SimTask& task = *tasks_.back();
  task.fiber = std::make_unique<Fiber>(stacks_, &SimEngine::RunTask, &task);
  if (kind == TaskKind::kProgram) ++live_program_count_;
  AddRunnable(id);
  return task;
}

void SimEngine::ForgetTask(uint64_t id) { tasks_[id - 1].reset(); }

void SimEngine::RunTask(void* task) {
  SimTask& self = *static_cast<SimTask*>(task);
  self.engine->FreeEndedFiber();
  {
    // What the function holds goes before the task counts as ended, and on the
    // task itself, since it may call the runtime.
    absl::AnyInvocable<void()> function = std::move(self.function);
    function();
  }
  self.engine->EndCurrentTask();
}

void SimEngine::EndCurrentTask() {
  SimTask& self = *current_;
  self.ended = true;
  if (self.kind == TaskKind::kProgram) --live_program_count_;
  RemoveRunnable(self.id);
  WakeAll(self.joiners);
  SimTask* const next = ChooseNext(SimCall::kExit);
  ended_ = &self;
  current_ = next;
  Fiber::SwitchForGood(*self.fiber, next == nullptr ? *root_ : *next->fiber);
}

void SimEngine::SwitchTo(SimTask* next) {
  SimTask* const self = current_;
  current_ = next;
  Fiber::Switch(self == nullptr ? *root_ : *self->fiber,
                next == nullptr ? *root_ : *next->fiber);
  FreeEndedFiber();
}

void SimEngine::FreeEndedFiber() {
  if (ended_ == nullptr) return;
  ended_->fiber.reset();
  ended_ = nullptr;
}

void SimEngine::AbandonTasks() {
  for (const std::unique_ptr<SimTask>& task : tasks_) {
    if (task == nullptr || task->ended) continue;
    NoteError(
        absl::StrCat("a task never ended: ", DescribeWait(*task, tasks_)));
  }
  for (std::unique_ptr<SimTask>& task : tasks_) task.reset();
  runnable_.clear();
  timers_.clear();
  live_program_count_ = 0;
}

void SimEngine::ChoicePoint(SimCall call) {
  SimTask* const next = ChooseNext(call);
  if (next != current_) SwitchTo(next);
}

bool SimEngine::Block(SimCall call, SimWaitQueue& queue, absl::Time deadline) {
  SimTask& self = *current_;
  self.waits_in = &queue;
  self.deadline = deadline;
  queue.waiting.push_back(self.id);
  if (deadline < absl::InfiniteFuture()) timers_.emplace(deadline, self.id);
  RemoveRunnable(self.id);
  ChoicePoint(call);
  return !self.expired;
}

void SimEngine::WakeOne(SimWaitQueue& queue) {
  if (queue.waiting.empty()) return;
  const size_t index = ChooseIndex({.call = SimCall::kWake,
                                    .candidates = queue.waiting,
                                    .caller = queue.waiting.size()});
  const uint64_t chosen = queue.waiting[index];
  Trace(SimCall::kWake, chosen);
  EndWait(task(chosen), /*expired=*/false);
}

void SimEngine::WakeAll(SimWaitQueue& queue) {
  while (!queue.waiting.empty()) {
    EndWait(task(queue.waiting.back()), /*expired=*/false);
  }
}

void SimEngine::NoteError(std::string error) {
  errors_.push_back(std::move(error));
}

SimTask* SimEngine::ChooseNext(SimCall call) {
  if (choice_count_ >= choice_count_max_) {
    if (!gave_up_) {
      NoteError(absl::StrCat("no end after ", choice_count_,
                             " choices, the most allowed"));
    }
    gave_up_ = true;
    return nullptr;
  }
  while (runnable_.empty()) {
    if (!MakeRunnable()) return nullptr;
  }
  size_t caller = runnable_.size();
  if (current_ != nullptr) {
    const auto it =
        std::lower_bound(runnable_.begin(), runnable_.end(), current_->id);
    if (it != runnable_.end() && *it == current_->id) {
      caller = static_cast<size_t>(it - runnable_.begin());
    }
  }
  const uint64_t chosen = runnable_[ChooseIndex(
      {.call = call, .candidates = runnable_, .caller = caller})];
  Trace(call, chosen);
  return &task(chosen);
}

size_t SimEngine::ChooseIndex(const SimChoice& choice) {
  return choice.candidates.size() == 1 ? 0 : scheduler_.Choose(choice);
}

void SimEngine::Trace(SimCall call, uint64_t chosen) {
  ++choice_count_;
  const int64_t now_ns = absl::ToInt64Nanoseconds(now_ - absl::UnixEpoch());
  trace_hash_ = MixBits(trace_hash_ + chosen);
  trace_hash_ = MixBits(trace_hash_ + static_cast<uint64_t>(call));
  trace_hash_ = MixBits(trace_hash_ + static_cast<uint64_t>(now_ns));
}

void SimEngine::AddRunnable(uint64_t id) {
  runnable_.insert(std::lower_bound(runnable_.begin(), runnable_.end(), id),
                   id);
}

void SimEngine::RemoveRunnable(uint64_t id) {
  runnable_.erase(std::lower_bound(runnable_.begin(), runnable_.end(), id));
}

void SimEngine::EndWait(SimTask& task, bool expired) {
  std::erase(task.waits_in->waiting, task.id);
  task.waits_in = nullptr;
  task.expired = expired;
  timers_.erase({task.deadline, task.id});
  AddRunnable(task.id);
}

bool SimEngine::MakeRunnable() {
  // Once the programs have ended, what the services wait for is gone too.
  if (live_program_count_ == 0) return false;
  return AdvanceClock() || BreakDeadlock();
}

bool SimEngine::AdvanceClock() {
  if (timers_.empty()) return false;
  now_ = std::max(now_, timers_.begin()->first);
  while (!timers_.empty() && timers_.begin()->first <= now_) {
    EndWait(task(timers_.begin()->second), /*expired=*/true);
  }
  return true;
}

bool SimEngine::BreakDeadlock() {
  if (++deadlock_count_ == 1) {
    NoteError(absl::StrCat(
        "deadlock at ", absl::FormatDuration(now_ - absl::UnixEpoch()),
        ", no task can run and no deadline is due: ", DescribeWaits(tasks_)));
  }
  if (deadlock_count_ > kDeadlockCountMax) {
    NoteError(absl::StrCat("given up after ", kDeadlockCountMax,
                           " deadlocks that were broken"));
    return false;
  }
  // The gentlest way first: a wait on a condition can say that it has expired,
  // a mutex cannot. A service goes on only if somebody waits for its end.
  const auto waits_in = [](const SimTask& task, SimWaitQueue::Kind kind) {
    return task.waits_in->kind == kind;
  };
  return ExpireWaits(
             [&](const SimTask& task) {
               return task.kind == TaskKind::kProgram &&
                      waits_in(task, SimWaitQueue::Kind::kCondition);
             },
             tasks_.size()) ||
         ExpireWaits(
             [&](const SimTask& task) {
               return !task.joiners.waiting.empty() &&
                      waits_in(task, SimWaitQueue::Kind::kCondition);
             },
             tasks_.size()) ||
         ExpireWaits(
             [&](const SimTask& task) {
               return waits_in(task, SimWaitQueue::Kind::kMutex);
             },
             1);
}

template <typename Predicate>
bool SimEngine::ExpireWaits(Predicate predicate, size_t count_max) {
  size_t count = 0;
  for (const std::unique_ptr<SimTask>& task : tasks_) {
    if (count == count_max) break;
    if (task == nullptr || task->waits_in == nullptr || !predicate(*task)) {
      continue;
    }
    EndWait(*task, /*expired=*/true);
    ++count;
  }
  return count > 0;
}

}  // namespace muonshard
