#include "plugins/loopback/model/network_clock.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/host_table.h"
#include "collectives/plugin_abi.h"
#include "collectives/runtime/sim_runtime.h"

namespace muonshard::loopback {
namespace {

// The table of the runtime under test, and what was asked of it.
muonshard_host real_host;
int tasks_started = 0;
int tasks_joined = 0;

muonshard_host CountingHost(const muonshard_host& host) {
  real_host = host;
  tasks_started = tasks_joined = 0;
  muonshard_host counting = host;
  counting.task_start = [](void* context, const char* name,
                           void (*function)(void*), void* argument) {
    ++tasks_started;
    return real_host.task_start(context, name, function, argument);
  };
  counting.task_join = [](void* context, muonshard_task task) {
    ++tasks_joined;
    real_host.task_join(context, task);
  };
  return counting;
}

// Starts a barrier of two ranks and waits for it.
void PassBarrier(Domain& domain, NetworkClock& clock) {
  const std::vector<int32_t> ranks = {0, 1};
  const Call barrier;
  const std::vector<const Call*> calls = {&barrier, &barrier};
  HostCondition changed(domain.host());
  bool ended = false;
  HostLock lock(domain.mutex());
  EXPECT_TRUE(clock.Start(ranks, calls, &barrier, [&](const Outcome& outcome) {
    EXPECT_TRUE(outcome.ok()) << outcome.text;
    ended = true;
    changed.NotifyAll();
  }));
  domain.Settle(lock);
  while (!ended) changed.Wait(lock, kNever);
}

TEST(NetworkClockTest, OneTaskServesAllOperationsAndIsJoinedInTheEnd) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto runtime = SimRuntime::Create({.seed = seed});
    const absl::Status ended = runtime->Run([&] {
      const HostTable table(*runtime);
      const auto domain = std::make_shared<Domain>(CountingHost(*table.get()));
      std::shared_ptr<NetworkClock> clock;
      const Outcome opened =
          NetworkClock::Open(domain, "hosts=2 lanes=1 alpha_ns=1500",
                             /*makes_messages=*/false, &clock);
      ASSERT_TRUE(opened.ok()) << opened.text;
      EXPECT_EQ(tasks_started, 0) << "there is nothing to do yet";
      const int64_t begin_ns = domain->host().Now();
      for (int i = 0; i < 3; ++i) PassBarrier(*domain, *clock);
      EXPECT_EQ(domain->host().Now() - begin_ns, 3 * 1500);
      EXPECT_EQ(tasks_started, 1);
      EXPECT_EQ(tasks_joined, 0);
      HostLock lock(domain->mutex());
      clock->Close(lock);
      EXPECT_EQ(tasks_joined, 1);
    });
    EXPECT_TRUE(ended.ok()) << ended;
  }
}

}  // namespace
}  // namespace muonshard::loopback
