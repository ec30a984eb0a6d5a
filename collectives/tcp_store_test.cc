#include "collectives/tcp_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/sim_runtime.h"
#include "collectives/runtime/threads_runtime.h"
#include "testing/status_matchers.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;
using ::testing::Each;

constexpr char kHost[] = "127.0.0.1";
constexpr char kSecret[] = "a secret of this test";

class TcpStoreTest : public ::testing::Test {
 protected:
  // Turns a hang into a failure.
  absl::Time Guard() { return runtime_->Now() + absl::Seconds(60); }

  std::unique_ptr<TcpStoreServer> Listen(const TcpStoreLimits& limits = {}) {
    auto server = TcpStoreServer::Listen(*runtime_,
                                         {.secret = kSecret, .limits = limits});
    EXPECT_THAT(server, IsOk());
    return *std::move(server);
  }

  std::unique_ptr<Store> Connect(const TcpStoreServer& server) {
    auto store =
        ConnectTcpStore(*runtime_, kHost, server.port(), kSecret, Guard());
    EXPECT_THAT(store, IsOk());
    return *std::move(store);
  }

  const std::unique_ptr<Runtime> runtime_ = NewThreadsRuntime();
};

// What each process of the next test does once it is told the port; true if all
// went well. The first ends without a goodbye.
bool AddAndMeet(int told, int process, int processes, int adds) {
  uint16_t port = 0;
  if (read(told, &port, sizeof(port)) != sizeof(port)) return false;
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const absl::Time guard = runtime->Now() + absl::Seconds(60);
  const auto store = ConnectTcpStore(*runtime, kHost, port, kSecret, guard);
  if (!store.ok()) return false;
  for (int i = 0; i < adds; ++i) {
    if (!(*store)->Add("count", 1).ok()) return false;
  }
  if (!(*store)->Put(absl::StrCat("done/", process), "yes").ok()) return false;
  for (int p = 0; p < processes; ++p) {
    if (!(*store)->Get(absl::StrCat("done/", p), guard).ok()) return false;
  }
  if (process == 0) _exit(0);
  return true;
}

// First in this file: the processes fork before this one has a second thread.
TEST_F(TcpStoreTest, ProcessesMeetAndEachAddCounts) {
  constexpr int kProcesses = 4;
  constexpr int kAdds = 25;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      _exit(AddAndMeet(pipe_ends[0], p, kProcesses, kAdds) ? 0 : 1);
    }
    children.push_back(child);
  }
  const auto server = Listen();
  const uint16_t port = server->port();
  for (int p = 0; p < kProcesses; ++p) {
    ASSERT_EQ(write(pipe_ends[1], &port, sizeof(port)),
              static_cast<ssize_t>(sizeof(port)));
  }
  EXPECT_THAT(server->WaitForGoodbyes(kProcesses, Guard()), IsOk());
  for (const pid_t child : children) {
    int ended = 0;
    ASSERT_EQ(waitpid(child, &ended, 0), child);
    EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
  }
  EXPECT_EQ(*Connect(*server)->Add("count", 0), kProcesses * kAdds);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(TcpStoreTest, ClientsOfOneServerShareItAndThoseOfAnotherDoNot) {
  const auto server = Listen();
  const auto other = Listen();
  EXPECT_NE(server->port(), other->port());
  const auto one = Connect(*server);
  const auto two = Connect(*server);
  const auto apart = Connect(*other);
  EXPECT_THAT(one->Put("key", "value"), IsOk());
  EXPECT_EQ(*two->Get("key", Guard()), "value");
  EXPECT_THAT(apart->Get("key", absl::InfinitePast()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(TcpStoreTest, APortInUseIsUnavailableByName) {
  const auto server = Listen();
  EXPECT_THAT(TcpStoreServer::Listen(
                  *runtime_, {.port = server->port(), .secret = kSecret}),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat(kHost, ":", server->port())));
}

TEST_F(TcpStoreTest, AHostThatDoesNotResolveIsUnavailableAtOnce) {
  EXPECT_THAT(
      TcpStoreServer::Listen(*runtime_, {.host = "no host", .secret = kSecret}),
      StatusIs(absl::StatusCode::kUnavailable, "no host:0"));
  EXPECT_THAT(
      ConnectTcpStore(*runtime_, "no host", 7, kSecret, absl::InfiniteFuture()),
      StatusIs(absl::StatusCode::kUnavailable, "no host:7"));
}

TEST_F(TcpStoreTest, WhatMakesNoSenseIsRefused) {
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(TcpStoreServer::Listen(*runtime_, {.secret = "too short"}),
              StatusIs(kBad, "16"));
  EXPECT_THAT(
      TcpStoreServer::Listen(*runtime_, {.host = "", .secret = kSecret}),
      StatusIs(kBad, "host"));
  EXPECT_THAT(
      TcpStoreServer::Listen(
          *runtime_, {.secret = kSecret, .limits = {.client_count_max = 0}}),
      StatusIs(kBad, "client_count_max"));
  EXPECT_THAT(ConnectTcpStore(*runtime_, kHost, 7, "too short", Guard()),
              StatusIs(kBad, "16"));
  EXPECT_THAT(ConnectTcpStore(*runtime_, "", 7, kSecret, Guard()),
              StatusIs(kBad, "host"));
  EXPECT_THAT(ConnectTcpStore(*runtime_, kHost, 0, kSecret, Guard()),
              StatusIs(kBad, "port"));
}

TEST_F(TcpStoreTest, TheSimulatedRuntimeIsRefused) {
  const std::unique_ptr<SimRuntime> sim = SimRuntime::Create({.seed = 1});
  const absl::Status ended = sim->Run([&] {
    EXPECT_THAT(TcpStoreServer::Listen(*sim, {.secret = kSecret}),
                StatusIs(absl::StatusCode::kUnimplemented));
    EXPECT_THAT(
        ConnectTcpStore(*sim, kHost, 7, kSecret, absl::InfiniteFuture()),
        StatusIs(absl::StatusCode::kUnimplemented));
  });
  EXPECT_THAT(ended, IsOk());
}

TEST_F(TcpStoreTest, AClientMayStartBeforeTheServer) {
  // Nobody is given this port to connect from: the kernel takes those from
  // 32768 on.
  uint16_t port = static_cast<uint16_t>(20000 + getpid() % 10000);
  while (!TcpStoreServer::Listen(*runtime_, {.port = port, .secret = kSecret})
              .ok()) {
    ++port;
  }
  std::unique_ptr<TcpStoreServer> server;
  EXPECT_THAT(RunRanks(*runtime_, 2,
                       [&](Rank rank) -> absl::Status {
                         if (rank == Rank{0}) {
                           auto store = ConnectTcpStore(*runtime_, kHost, port,
                                                        kSecret, Guard());
                           if (!store.ok()) return store.status();
                           return (*store)->Put("key", "value");
                         }
                         for (int i = 0; i < 1000; ++i) runtime_->Yield();
                         auto listening = TcpStoreServer::Listen(
                             *runtime_, {.port = port, .secret = kSecret});
                         if (!listening.ok()) return listening.status();
                         server = *std::move(listening);
                         return absl::OkStatus();
                       }),
              Each(IsOk()));
}

TEST_F(TcpStoreTest, AServerThatIsNotThereIsUnavailableAtTheDeadline) {
  const uint16_t port = Listen()->port();
  const absl::Time deadline = runtime_->Now() + absl::Milliseconds(50);
  EXPECT_THAT(ConnectTcpStore(*runtime_, kHost, port, kSecret, deadline),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat(kHost, ":", port, ": Connection refused")));
  EXPECT_GE(runtime_->Now(), deadline);
}

TEST_F(TcpStoreTest, AServerThatGoesEndsEveryCall) {
  auto server = Listen();
  const std::string name = absl::StrCat(kHost, ":", server->port());
  const auto store = Connect(*server);
  const auto waits = [&](Rank rank) -> absl::Status {
    if (rank == Rank{0}) {
      for (int i = 0; i < 100; ++i) runtime_->Yield();
      server = nullptr;
      return absl::UnavailableError(name);
    }
    return store->Get(absl::StrCat("never/", ToInt(rank)), Guard()).status();
  };
  constexpr auto kGone = absl::StatusCode::kUnavailable;
  EXPECT_THAT(RunRanks(*runtime_, 5, waits), Each(StatusIs(kGone, name)));
  EXPECT_THAT(store->Put("key", "value"), StatusIs(kGone, name));
  EXPECT_THAT(store->Get("key", Guard()), StatusIs(kGone, name));
  EXPECT_THAT(store->Add("key", 1), StatusIs(kGone, name));
}

TEST_F(TcpStoreTest, AGetThatWaitsDoesNotHoldUpOtherCallsOfItsClient) {
  const auto server = Listen();
  const auto store = Connect(*server);
  EXPECT_THAT(RunRanks(*runtime_, 8,
                       [&](Rank rank) -> absl::Status {
                         const int32_t r = ToInt(rank);
                         if (r == 7) return store->Put("key/7", "");
                         // Each waits for the next.
                         auto value =
                             store->Get(absl::StrCat("key/", r + 1), Guard());
                         if (!value.ok()) return value.status();
                         return store->Put(absl::StrCat("key/", r), "");
                       }),
              Each(IsOk()));
}

TEST_F(TcpStoreTest, AGetThatEndedAtItsDeadlineIsAsIfItHadNotBeen) {
  const auto server = Listen();
  const auto store = Connect(*server);
  const auto other = Connect(*server);
  for (int i = 0; i < 20; ++i) {
    const std::string key = absl::StrCat("late/", i);
    EXPECT_THAT(store->Get(key, runtime_->Now() + absl::Milliseconds(i % 3)),
                StatusIs(absl::StatusCode::kDeadlineExceeded, key));
    EXPECT_THAT(other->Put(key, key), IsOk());
    EXPECT_EQ(*store->Add("count", 1), i + 1);
    EXPECT_EQ(*store->Get(key, absl::InfinitePast()), key);
  }
}

TEST_F(TcpStoreTest, ManyClientsAndManyTasksOfOneClientCountTogether) {
  constexpr int kTasks = 64;
  constexpr int kAdds = 20;
  const auto server = Listen();
  const auto shared = Connect(*server);
  EXPECT_THAT(RunRanks(*runtime_, kTasks,
                       [&](Rank) -> absl::Status {
                         const auto own = Connect(*server);
                         for (int i = 0; i < kAdds; ++i) {
                           if (auto sum = own->Add("count", 1); !sum.ok()) {
                             return sum.status();
                           }
                           if (auto sum = shared->Add("count", 1); !sum.ok()) {
                             return sum.status();
                           }
                         }
                         return absl::OkStatus();
                       }),
              Each(IsOk()));
  EXPECT_EQ(*shared->Add("count", 0), 2 * kTasks * kAdds);
}

// More than sockets and outputs hold, both ways at once.
TEST_F(TcpStoreTest, LargeValuesPassBothWaysAtOnce) {
  constexpr int kTasks = 6;
  constexpr int kRounds = 4;
  const auto server = Listen();
  const auto store = Connect(*server);
  const auto value_of = [](int task) {
    return std::string(size_t{1} << 20, static_cast<char>('a' + task));
  };
  EXPECT_THAT(
      RunRanks(*runtime_, kTasks,
               [&](Rank rank) -> absl::Status {
                 const int32_t own = ToInt(rank);
                 const int32_t next = (own + 1) % kTasks;
                 for (int round = 0; round < kRounds; ++round) {
                   if (absl::Status s = store->Put(
                           absl::StrCat(round, "/", own), value_of(own));
                       !s.ok()) {
                     return s;
                   }
                   const auto value =
                       store->Get(absl::StrCat(round, "/", next), Guard());
                   if (!value.ok()) return value.status();
                   if (*value != value_of(next)) {
                     return absl::DataLossError("another value");
                   }
                 }
                 return absl::OkStatus();
               }),
      Each(IsOk()));
}

TEST_F(TcpStoreTest, ALimitIsAnErrorAndNothingChanges) {
  constexpr auto kFull = absl::StatusCode::kResourceExhausted;
  const auto server = Listen(
      {.value_bytes_max = 8, .key_count_max = 3, .stored_bytes_max = 40});
  const auto store = Connect(*server);
  EXPECT_THAT(store->Put("key", "12345678"), IsOk());
  EXPECT_THAT(store->Put("key", "123456789"), StatusIs(kFull, "got 9"));
  EXPECT_EQ(*store->Get("key", absl::InfinitePast()), "12345678");
  EXPECT_THAT(store->Put(std::string(30, 'k'), ""), StatusIs(kFull, "40"));
  EXPECT_EQ(*store->Add("one", 1), 1);
  EXPECT_EQ(*store->Add("two", 1), 1);
  EXPECT_THAT(store->Add("three", 1), StatusIs(kFull, "3 keys"));
  EXPECT_THAT(store->Put("four", ""), StatusIs(kFull, "3 keys"));
  EXPECT_EQ(*store->Add("one", 1), 2);
}

TEST_F(TcpStoreTest, TooManyClientsAreRefusedUntilOneLeaves) {
  const auto server = Listen({.client_count_max = 2});
  const auto one = Connect(*server);
  auto two = Connect(*server);
  EXPECT_THAT(
      ConnectTcpStore(*runtime_, kHost, server->port(), kSecret, Guard()),
      StatusIs(absl::StatusCode::kResourceExhausted,
               absl::StrCat(kHost, ":", server->port())));
  EXPECT_EQ(*one->Add("count", 1), 1);
  two = nullptr;
  ASSERT_THAT(server->WaitForGoodbyes(1, Guard()), IsOk());
  EXPECT_EQ(*Connect(*server)->Add("count", 1), 2);
}

TEST_F(TcpStoreTest, GoodbyesAreAwaited) {
  const auto server = Listen();
  EXPECT_THAT(server->WaitForGoodbyes(0, absl::InfinitePast()), IsOk());
  auto one = Connect(*server);
  auto two = Connect(*server);
  EXPECT_THAT(server->WaitForGoodbyes(2, absl::InfinitePast()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "2 of 2"));
  one = nullptr;
  EXPECT_THAT(server->WaitForGoodbyes(1, Guard()), IsOk());
  EXPECT_THAT(
      server->WaitForGoodbyes(2, runtime_->Now() + absl::Milliseconds(5)),
      StatusIs(absl::StatusCode::kDeadlineExceeded, "1 of 2"));
  EXPECT_THAT(RunRanks(*runtime_, 2,
                       [&](Rank rank) -> absl::Status {
                         if (rank == Rank{0}) {
                           return server->WaitForGoodbyes(2, Guard());
                         }
                         two = nullptr;
                         return absl::OkStatus();
                       }),
              Each(IsOk()));
}

}  // namespace
}  // namespace muonshard
