#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/runtime_contract.h"

namespace muonshard {
namespace {

TEST_P(RuntimeContract, AnEventWithoutASourceHasHappened) {
  OnRuntime([](Runtime&) {
    const Event event;
    EXPECT_TRUE(event.done());
    EXPECT_EQ(event.Wait(absl::InfinitePast()), absl::OkStatus());
    std::optional<absl::Status> seen;
    event.Then([&](const absl::Status& status) { seen = status; });
    EXPECT_EQ(seen, absl::OkStatus());
  });
}

TEST_P(RuntimeContract, AnEventHappensOnceWithItsFirstStatus) {
  OnRuntime([](Runtime& runtime) {
    EventSource source(runtime);
    const Event event = source.event();
    EXPECT_FALSE(event.done());
    source.Complete(absl::DataLossError("first"));
    source.Complete(absl::OkStatus());
    EXPECT_TRUE(event.done());
    EXPECT_EQ(event.Wait(absl::InfinitePast()), absl::DataLossError("first"));
  });
}

TEST_P(RuntimeContract, WaitingForAnEventEndsAtTheDeadline) {
  OnRuntime([](Runtime& runtime) {
    EventSource source(runtime);
    const Event event = source.event();
    const absl::Time deadline = runtime.Now() + absl::Milliseconds(3);
    EXPECT_EQ(event.Wait(deadline).code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_FALSE(event.done());
    EXPECT_GE(runtime.Now(), deadline);
  });
}

TEST_P(RuntimeContract, WhatTheSourceDidIsVisibleToAllWaiters) {
  OnRuntime([](Runtime& runtime) {
    EventSource source(runtime);
    int result = 0;
    std::vector<std::unique_ptr<Task>> waiters;
    for (int i = 0; i < 3; ++i) {
      waiters.push_back(runtime.Start(
          "waiter", TaskKind::kProgram, [&, event = source.event()] {
            EXPECT_EQ(event.Wait(absl::InfiniteFuture()), absl::OkStatus());
            EXPECT_EQ(result, 7);
          }));
    }
    result = 7;
    source.Complete(absl::OkStatus());
    for (const auto& waiter : waiters) waiter->Join();
  });
}

TEST_P(RuntimeContract, CallbacksRunBeforeCompleteReturnsOrAtOnce) {
  OnRuntime([](Runtime& runtime) {
    EventSource source(runtime);
    const Event event = source.event();
    std::vector<int> seen;
    event.Then([&](const absl::Status& status) {
      EXPECT_EQ(status, absl::AbortedError("x"));
      seen.push_back(1);
    });
    event.Then([&](const absl::Status&) { seen.push_back(2); });
    EXPECT_TRUE(seen.empty());
    source.Complete(absl::AbortedError("x"));
    EXPECT_EQ(seen, (std::vector<int>{1, 2}));
    event.Then([&](const absl::Status& status) {
      EXPECT_EQ(status, absl::AbortedError("x"));
      seen.push_back(3);
    });
    EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
  });
}

TEST_P(RuntimeContract, ACallbackMayUseItsOwnEvent) {
  OnRuntime([](Runtime& runtime) {
    EventSource source(runtime);
    bool nested = false;
    source.event().Then([&, event = source.event()](const absl::Status&) {
      EXPECT_TRUE(event.done());
      EXPECT_EQ(event.Wait(absl::InfiniteFuture()), absl::OkStatus());
      event.Then([&](const absl::Status&) { nested = true; });
    });
    source.Complete(absl::OkStatus());
    EXPECT_TRUE(nested);
  });
}

TEST_P(RuntimeContract, EachCallbackRunsOnceWhenItRacesWithCompletion) {
  OnRuntime([](Runtime& runtime) {
    EventSource source(runtime);
    std::vector<int> runs(8, 0);
    const std::unique_ptr<Task> registrar = runtime.Start(
        "registrar", TaskKind::kProgram, [&, event = source.event()] {
          for (int& count : runs) {
            event.Then([&count](const absl::Status&) { ++count; });
          }
        });
    runtime.Yield();
    source.Complete(absl::OkStatus());
    registrar->Join();
    EXPECT_EQ(runs, std::vector<int>(runs.size(), 1));
  });
}

TEST_P(RuntimeContract, AnAbandonedSourceAborts) {
  OnRuntime([](Runtime& runtime) {
    Event event;
    {
      EventSource source(runtime);
      event = source.event();
      const EventSource moved = std::move(source);
      source.Complete(absl::OkStatus());
      EXPECT_FALSE(event.done());
    }
    EXPECT_EQ(event.Wait(absl::InfinitePast()).code(),
              absl::StatusCode::kAborted);
  });
}

TEST_P(RuntimeContract, AWaiterMayDestroyTheSource) {
  OnRuntime([](Runtime& runtime) {
    auto source = std::make_unique<EventSource>(runtime);
    EventSource* const unowned = source.get();
    const Event event = source->event();
    int runs = 0;
    event.Then([&](const absl::Status& status) { runs += status.ok(); });
    const std::unique_ptr<Task> completer =
        runtime.Start("completer", TaskKind::kProgram,
                      [unowned] { unowned->Complete(absl::OkStatus()); });
    EXPECT_EQ(event.Wait(absl::InfiniteFuture()), absl::OkStatus());
    source.reset();
    completer->Join();
    EXPECT_EQ(runs, 1);
  });
}

}  // namespace
}  // namespace muonshard
