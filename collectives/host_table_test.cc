#include "collectives/host_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/abi_time.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/testing/recording_runtime.h"

namespace muonshard {
namespace {

using ::muonshard::testing::RecordingRuntime;
using ::testing::ElementsAre;

class HostTableTest : public ::testing::Test {
 protected:
  RecordingRuntime runtime_{NewThreadsRuntime()};
  const HostTable table_{runtime_};
  const muonshard_host& host_ = *table_.get();
  void* const context_ = host_.context;
};

TEST_F(HostTableTest, ItHasThisVersionAndSize) {
  EXPECT_EQ(host_.header.size, MUONSHARD_END(muonshard_host, event_then));
  EXPECT_EQ(host_.abi_major, MUONSHARD_ABI_MAJOR);
  EXPECT_EQ(host_.abi_minor, MUONSHARD_ABI_MINOR);
}

TEST_F(HostTableTest, LinesGoToTheLogOfTheRuntime) {
  host_.log(context_, 2, "smoke");
  host_.log(context_, 0, nullptr);
  EXPECT_THAT(runtime_.TakeLines(), ElementsAre("2 smoke", "0 "));
}

TEST_F(HostTableTest, TheClockIsThatOfTheRuntime) {
  const int64_t before = ToAbiNanoseconds(runtime_.Now());
  const int64_t now = host_.now_ns(context_);
  EXPECT_LE(before, now);
  EXPECT_LE(now, ToAbiNanoseconds(runtime_.Now()));
}

TEST_F(HostTableTest, InstantsKeepTheirMeaning) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ToAbiNanoseconds(absl::InfiniteFuture()), kNever);
  EXPECT_EQ(FromAbiNanoseconds(kNever), absl::InfiniteFuture());
  const absl::Time instant = absl::UnixEpoch() + absl::Nanoseconds(123456789);
  EXPECT_EQ(ToAbiNanoseconds(instant), 123456789);
  EXPECT_EQ(FromAbiNanoseconds(123456789), instant);
  EXPECT_LT(FromAbiNanoseconds(ToAbiNanoseconds(absl::InfinitePast())),
            absl::UnixEpoch());
}

TEST_F(HostTableTest, AWaitEndsAtItsDeadline) {
  const muonshard_mutex mutex = host_.mutex_new(context_);
  const muonshard_condition condition = host_.condition_new(context_);
  host_.mutex_lock(context_, mutex);
  int32_t in_time = 1;
  while (in_time == 1) {
    in_time = host_.condition_wait(context_, condition, mutex,
                                   host_.now_ns(context_));
  }
  EXPECT_EQ(in_time, 0);
  host_.mutex_unlock(context_, mutex);
  host_.condition_free(context_, condition);
  host_.mutex_free(context_, mutex);
}

// What a task and its starter share.
struct Meeting {
  const muonshard_host* host;
  muonshard_mutex mutex;
  muonshard_condition condition;
  uint64_t visitor = 0;
};

void Visit(void* argument) {
  Meeting& meeting = *static_cast<Meeting*>(argument);
  const muonshard_host& host = *meeting.host;
  host.yield(host.context);
  host.mutex_lock(host.context, meeting.mutex);
  meeting.visitor = host.task_current(host.context);
  host.condition_notify_all(host.context, meeting.condition);
  host.mutex_unlock(host.context, meeting.mutex);
}

TEST_F(HostTableTest, TasksMeetThroughAMutexAndACondition) {
  Meeting meeting{&host_, host_.mutex_new(context_),
                  host_.condition_new(context_)};
  const muonshard_task task =
      host_.task_start(context_, "visitor", Visit, &meeting);
  ASSERT_NE(task, nullptr);
  host_.mutex_lock(context_, meeting.mutex);
  while (meeting.visitor == 0) {
    host_.condition_wait(context_, meeting.condition, meeting.mutex,
                         std::numeric_limits<int64_t>::max());
  }
  EXPECT_NE(meeting.visitor, host_.task_current(context_));
  host_.mutex_unlock(context_, meeting.mutex);
  host_.task_join(context_, task);
  host_.condition_free(context_, meeting.condition);
  host_.mutex_free(context_, meeting.mutex);
}

struct Heard {
  int calls = 0;
  muonshard_code code = MUONSHARD_OK;
  std::string text;
};

void Hear(void* argument, muonshard_code code, const char* text) {
  Heard& heard = *static_cast<Heard*>(argument);
  ++heard.calls;
  heard.code = code;
  heard.text = text;
}

TEST_F(HostTableTest, AnEventCallsBackOnceWhenItHappens) {
  EventSource source(runtime_);
  Heard heard;
  {
    const Event event = source.event();
    host_.event_then(context_, EventHandle(event), Hear, &heard);
  }
  EXPECT_EQ(heard.calls, 0);
  source.Complete(absl::DataLossError("flipped bit"));
  EXPECT_EQ(heard.calls, 1);
  EXPECT_EQ(heard.code, MUONSHARD_E_CORRUPT);
  EXPECT_EQ(heard.text, "flipped bit");
}

TEST_F(HostTableTest, AnEventThatHasHappenedCallsBackAtOnce) {
  Heard heard;
  const Event event;
  host_.event_then(context_, EventHandle(event), Hear, &heard);
  EXPECT_EQ(heard.calls, 1);
  EXPECT_EQ(heard.code, MUONSHARD_OK);
}

// A machine without memory.
class ExhaustedRuntime final : public Runtime {
 public:
  absl::Time Now() override { return absl::UnixEpoch(); }
  std::unique_ptr<Mutex> NewMutex() override { throw std::bad_alloc(); }
  std::unique_ptr<Condition> NewCondition() override { throw std::bad_alloc(); }
  std::unique_ptr<Task> Start(absl::string_view, TaskKind,
                              absl::AnyInvocable<void()>) override {
    throw std::bad_alloc();
  }
  void Yield() override {}
  uint64_t CurrentTaskId() override { return 1; }
  void Log(int32_t, absl::string_view) override {}
};

TEST(HostTableMemoryTest, WhatCannotBeMadeIsNull) {
  ExhaustedRuntime runtime;
  const HostTable table(runtime);
  const muonshard_host& host = *table.get();
  EXPECT_EQ(host.mutex_new(host.context), nullptr);
  EXPECT_EQ(host.condition_new(host.context), nullptr);
  EXPECT_EQ(host.task_start(host.context, "visitor", Visit, nullptr), nullptr);
}

}  // namespace
}  // namespace muonshard
