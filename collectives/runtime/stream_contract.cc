#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/runtime_contract.h"
#include "collectives/runtime/stream.h"

namespace muonshard {
namespace {

constexpr absl::Time kForever = absl::InfiniteFuture();

TEST_P(RuntimeContract, OperationsRunInOrderAndOneAtATime) {
  OnRuntime([](Runtime& runtime) {
    Stream stream(runtime, "stream");
    std::vector<int> order;
    bool running = false;
    for (int i = 0; i < 20; ++i) {
      stream.Enqueue([&, i](absl::Status upstream) {
        EXPECT_FALSE(running);
        running = true;
        runtime.Yield();
        order.push_back(i);
        running = false;
        return upstream;
      });
    }
    EXPECT_EQ(stream.Synchronize(kForever), absl::OkStatus());
    ASSERT_EQ(order.size(), 20u);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  });
}

TEST_P(RuntimeContract, AnOperationNeverRunsInsideEnqueue) {
  OnRuntime([](Runtime& runtime) {
    Stream stream(runtime, "stream");
    const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
    {
      // An operation inside Enqueue would lock this mutex twice.
      MutexLock lock(*mutex);
      stream.Enqueue([&](absl::Status upstream) {
        MutexLock operation_lock(*mutex);
        return upstream;
      });
    }
    EXPECT_EQ(stream.Synchronize(kForever), absl::OkStatus());
  });
}

TEST_P(RuntimeContract, AnErrorFlowsUntilAnOperationTakesItBack) {
  OnRuntime([](Runtime& runtime) {
    Stream stream(runtime, "stream");
    std::vector<absl::Status> upstreams;
    const auto pass = [&](absl::Status upstream) {
      upstreams.push_back(upstream);
      return upstream;
    };
    stream.Enqueue(pass);
    stream.Enqueue([](absl::Status) { return absl::DataLossError("lost"); });
    stream.Enqueue(pass);
    const Event failed = stream.Record();
    stream.Enqueue(pass);
    stream.Enqueue([](absl::Status) { return absl::OkStatus(); });
    stream.Enqueue(pass);
    EXPECT_EQ(stream.Synchronize(kForever), absl::OkStatus());
    EXPECT_EQ(upstreams, (std::vector<absl::Status>{
                             absl::OkStatus(), absl::DataLossError("lost"),
                             absl::DataLossError("lost"), absl::OkStatus()}));
    EXPECT_EQ(failed.Wait(absl::InfinitePast()), absl::DataLossError("lost"));
  });
}

TEST_P(RuntimeContract, AnIdleStreamRecordsItsStatusAtOnce) {
  OnRuntime([](Runtime& runtime) {
    Stream stream(runtime, "stream");
    EXPECT_EQ(stream.Record().Wait(absl::InfinitePast()), absl::OkStatus());
    stream.Enqueue([](absl::Status) { return absl::DataLossError("lost"); });
    EXPECT_EQ(stream.Synchronize(kForever), absl::DataLossError("lost"));
    EXPECT_EQ(stream.Record().Wait(absl::InfinitePast()),
              absl::DataLossError("lost"));
    EXPECT_EQ(stream.Synchronize(absl::InfinitePast()),
              absl::DataLossError("lost"));
  });
}

TEST_P(RuntimeContract, AStreamWaitsForItsEventAndTakesItsError) {
  OnRuntime([](Runtime& runtime) {
    EventSource source(runtime);
    Stream stream(runtime, "stream");
    bool ran = false;
    stream.WaitFor(source.event());
    const Event recorded = stream.Record();
    stream.Enqueue([&](absl::Status upstream) {
      ran = true;
      return upstream;
    });
    EXPECT_EQ(stream.Synchronize(runtime.Now() + absl::Milliseconds(1)).code(),
              absl::StatusCode::kDeadlineExceeded);
    EXPECT_FALSE(ran);
    EXPECT_FALSE(recorded.done());
    source.Complete(absl::UnavailableError("peer"));
    EXPECT_EQ(stream.Synchronize(kForever), absl::UnavailableError("peer"));
    EXPECT_TRUE(ran);
    EXPECT_EQ(recorded.Wait(absl::InfinitePast()),
              absl::UnavailableError("peer"));
  });
}

TEST_P(RuntimeContract, TheFirstErrorOfAStreamStays) {
  OnRuntime([](Runtime& runtime) {
    EventSource source(runtime);
    source.Complete(absl::UnavailableError("first"));
    EventSource other(runtime);
    other.Complete(absl::DataLossError("second"));
    EventSource coming(runtime);
    Stream stream(runtime, "stream");
    stream.WaitFor(source.event());
    stream.WaitFor(coming.event());
    stream.WaitFor(other.event());
    coming.Complete(absl::InternalError("third"));
    EXPECT_EQ(stream.Synchronize(kForever), absl::UnavailableError("first"));
    stream.WaitFor(other.event());
    EXPECT_EQ(stream.Synchronize(kForever), absl::UnavailableError("first"));
  });
}

TEST_P(RuntimeContract, SynchronizeRunsWhatIsQueuedWithoutAHandOff) {
  OnRuntime([](Runtime& runtime) {
    Stream stream(runtime, "stream");
    const uint64_t caller = runtime.CurrentTaskId();
    bool helped = false;
    // The stream's own task may always be faster; not so for ever.
    while (!helped) {
      stream.Enqueue([&](absl::Status upstream) {
        helped = runtime.CurrentTaskId() == caller;
        return upstream;
      });
      EXPECT_EQ(stream.Synchronize(kForever), absl::OkStatus());
    }
  });
}

TEST_P(RuntimeContract, OperationsRunWithoutSynchronize) {
  OnRuntime([](Runtime& runtime) {
    Stream stream(runtime, "stream");
    const uint64_t caller = runtime.CurrentTaskId();
    stream.Enqueue([&](absl::Status upstream) {
      EXPECT_NE(runtime.CurrentTaskId(), caller);
      return upstream;
    });
    EXPECT_EQ(stream.Record().Wait(kForever), absl::OkStatus());
  });
}

TEST_P(RuntimeContract, SynchronizeEndsAtItsDeadlineBehindARunningOperation) {
  OnRuntime([](Runtime& runtime) {
    EventSource started(runtime);
    EventSource gate(runtime);
    Stream stream(runtime, "stream");
    stream.Enqueue([&](absl::Status) {
      started.Complete(absl::OkStatus());
      return gate.event().Wait(kForever);
    });
    EXPECT_EQ(started.event().Wait(kForever), absl::OkStatus());
    EXPECT_EQ(stream.Synchronize(runtime.Now() + absl::Milliseconds(1)).code(),
              absl::StatusCode::kDeadlineExceeded);
    gate.Complete(absl::CancelledError("gate"));
    EXPECT_EQ(stream.Synchronize(kForever), absl::CancelledError("gate"));
  });
}

TEST_P(RuntimeContract, AnOperationCannotSynchronizeItsOwnStream) {
  OnRuntime([](Runtime& runtime) {
    Stream stream(runtime, "stream");
    stream.Enqueue([&](absl::Status) { return stream.Synchronize(kForever); });
    EXPECT_EQ(stream.Synchronize(kForever).code(),
              absl::StatusCode::kFailedPrecondition);
  });
}

TEST_P(RuntimeContract, AnOperationMayEnqueueOnItsOwnStream) {
  OnRuntime([](Runtime& runtime) {
    Stream stream(runtime, "stream");
    int ran = 0;
    stream.Enqueue([&](absl::Status outer) {
      stream.Enqueue([&](absl::Status inner) {
        ++ran;
        return inner;
      });
      return outer;
    });
    EXPECT_EQ(stream.Synchronize(kForever), absl::OkStatus());
    EXPECT_EQ(ran, 1);
  });
}

TEST_P(RuntimeContract, WhatAnOperationHeldIsGoneWhenItHasEnded) {
  OnRuntime([](Runtime& runtime) {
    auto held = std::make_shared<int>(0);
    Stream stream(runtime, "stream");
    stream.Enqueue([held](absl::Status upstream) { return upstream; });
    EXPECT_EQ(stream.Synchronize(kForever), absl::OkStatus());
    EXPECT_EQ(held.use_count(), 1);
  });
}

TEST_P(RuntimeContract, WhatAnOperationHeldMayUseTheStreamAsItGoes) {
  OnRuntime([](Runtime& runtime) {
    Stream stream(runtime, "stream");
    EventSource held(runtime);
    int ran = 0;
    held.event().Then([&](const absl::Status&) {
      stream.Enqueue([&](absl::Status upstream) {
        ++ran;
        return upstream;
      });
    });
    stream.Enqueue(
        [held = std::move(held)](absl::Status upstream) { return upstream; });
    EXPECT_EQ(stream.Synchronize(kForever), absl::OkStatus());
    EXPECT_EQ(ran, 1);
  });
}

TEST_P(RuntimeContract, DestroyingAStreamRunsWhatIsQueued) {
  OnRuntime([](Runtime& runtime) {
    EventSource gate(runtime);
    std::vector<int> order;
    Event recorded;
    const std::unique_ptr<Task> opener =
        runtime.Start("opener", TaskKind::kProgram, [&] {
          for (int i = 0; i < 10; ++i) runtime.Yield();
          gate.Complete(absl::OkStatus());
        });
    {
      Stream stream(runtime, "stream");
      for (int i = 0; i < 3; ++i) {
        stream.Enqueue([&, i](absl::Status upstream) {
          order.push_back(i);
          return upstream;
        });
        stream.WaitFor(gate.event());
      }
      recorded = stream.Record();
    }
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(recorded.Wait(absl::InfinitePast()), absl::OkStatus());
    opener->Join();
  });
}

TEST_P(RuntimeContract, TwoStreamsMeetInEvents) {
  OnRuntime([](Runtime& runtime) {
    constexpr int kRounds = 10;
    std::vector<int> order;
    {
      Stream first(runtime, "first");
      Stream second(runtime, "second");
      for (int i = 0; i < kRounds; ++i) {
        first.Enqueue([&, i](absl::Status upstream) {
          order.push_back(2 * i);
          return upstream;
        });
        second.WaitFor(first.Record());
        second.Enqueue([&, i](absl::Status upstream) {
          order.push_back(2 * i + 1);
          return upstream;
        });
        first.WaitFor(second.Record());
      }
    }
    ASSERT_EQ(order.size(), size_t{2 * kRounds});
    for (int i = 0; i < 2 * kRounds; ++i) {
      EXPECT_EQ(order[static_cast<size_t>(i)], i);
    }
  });
}

TEST_P(RuntimeContract, ManyTasksShareAStream) {
  OnRuntime([](Runtime& runtime) {
    constexpr int kTasks = 6;
    Stream stream(runtime, "stream");
    int sum = 0;
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < kTasks; ++i) {
      tasks.push_back(runtime.Start("user", TaskKind::kProgram, [&] {
        stream.Enqueue([&](absl::Status upstream) {
          ++sum;
          return upstream;
        });
        EXPECT_EQ(stream.Record().Wait(kForever), absl::OkStatus());
        EXPECT_EQ(stream.Synchronize(kForever), absl::OkStatus());
      }));
    }
    for (const auto& task : tasks) task->Join();
    EXPECT_EQ(sum, kTasks);
  });
}

}  // namespace
}  // namespace muonshard
