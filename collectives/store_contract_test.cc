// The contract of store.h, for every kind of store in one process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/sim_runtime.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/store.h"
#include "collectives/tcp_store.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::TestParamInfo;

// An empty folder of its own.
std::string NewFolder() {
  std::string folder = absl::StrCat(::testing::TempDir(), "/store.XXXXXX");
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return folder;
}

struct StoreCase {
  std::string name;
  // Makes a handle for each of `count` users of one store.
  std::function<std::vector<std::shared_ptr<Store>>(Runtime&, int count)> make;
  // Waits in the system, and so on threads only.
  bool real_time = false;
};

std::vector<std::shared_ptr<Store>> InProcess(Runtime& runtime, int count) {
  const std::shared_ptr<Store> store = NewInProcessStore(runtime);
  return std::vector<std::shared_ptr<Store>>(static_cast<size_t>(count), store);
}

std::vector<std::shared_ptr<Store>> OneFileStore(Runtime& runtime, int count) {
  absl::StatusOr<std::shared_ptr<Store>> store =
      NewFileStore(runtime, NewFolder());
  EXPECT_THAT(store, IsOk());
  return std::vector<std::shared_ptr<Store>>(static_cast<size_t>(count),
                                             *store);
}

std::vector<std::shared_ptr<Store>> FileStores(Runtime& runtime, int count) {
  const std::string folder = NewFolder();
  std::vector<std::shared_ptr<Store>> stores;
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<std::shared_ptr<Store>> store =
        NewFileStore(runtime, folder);
    EXPECT_THAT(store, IsOk());
    stores.push_back(*store);
  }
  return stores;
}

// What a server serves to one client, or to one for each user. The last of
// them takes the server along.
std::vector<std::shared_ptr<Store>> TcpStores(Runtime& runtime, int clients) {
  const std::string secret = "a secret of this test";
  absl::StatusOr<std::shared_ptr<TcpStoreServer>> server =
      TcpStoreServer::Listen(runtime, {.secret = secret});
  EXPECT_THAT(server, IsOk());
  std::vector<std::shared_ptr<Store>> stores;
  for (int i = 0; i < clients; ++i) {
    absl::StatusOr<std::unique_ptr<Store>> store =
        ConnectTcpStore(runtime, "127.0.0.1", (*server)->port(), secret,
                        runtime.Now() + absl::Seconds(60));
    EXPECT_THAT(store, IsOk());
    stores.emplace_back(store->release(),
                        [server = *server](Store* served) { delete served; });
  }
  return stores;
}

std::vector<std::shared_ptr<Store>> OneTcpStore(Runtime& runtime, int count) {
  return std::vector<std::shared_ptr<Store>>(static_cast<size_t>(count),
                                             TcpStores(runtime, 1)[0]);
}

class StoreTest : public ::testing::TestWithParam<StoreCase> {
 protected:
  // Runs `test` on both runtimes, where the store can be on both.
  void OnBothRuntimes(const std::function<void(Runtime&)>& test) {
    {
      SCOPED_TRACE("threads");
      const std::unique_ptr<Runtime> threads = NewThreadsRuntime();
      test(*threads);
    }
    if (GetParam().real_time) return;
    SCOPED_TRACE("sim");
    const std::unique_ptr<SimRuntime> sim = SimRuntime::Create({.seed = 1});
    EXPECT_THAT(sim->Run([&] { test(*sim); }), IsOk());
  }
};

TEST_P(StoreTest, AValueComesBackByteForByte) {
  OnBothRuntimes([&](Runtime& runtime) {
    const auto stores = GetParam().make(runtime, 2);
    const std::string bytes("\0\n\xFF end", 7);
    EXPECT_THAT(stores[0]->Put("job/1:a", bytes), IsOk());
    const auto value = stores[1]->Get("job/1:a", absl::InfiniteFuture());
    ASSERT_THAT(value, IsOk());
    EXPECT_EQ(*value, bytes);
    const std::string large(100000, 'x');
    EXPECT_THAT(stores[0]->Put("large", large), IsOk());
    EXPECT_EQ(*stores[1]->Get("large", absl::InfiniteFuture()), large);
  });
}

TEST_P(StoreTest, ALaterPutReplacesTheValueAlsoWithNothing) {
  OnBothRuntimes([&](Runtime& runtime) {
    const auto stores = GetParam().make(runtime, 2);
    EXPECT_THAT(stores[0]->Put("key", "old"), IsOk());
    EXPECT_THAT(stores[1]->Put("key", ""), IsOk());
    const auto value = stores[0]->Get("key", absl::InfinitePast());
    ASSERT_THAT(value, IsOk());
    EXPECT_EQ(*value, "");
  });
}

TEST_P(StoreTest, GetWaitsForTheKey) {
  OnBothRuntimes([&](Runtime& runtime) {
    const auto stores = GetParam().make(runtime, 2);
    EXPECT_THAT(
        RunRanks(
            runtime, 2,
            [&](Rank rank) -> absl::Status {
              if (rank == Rank{0}) {
                return stores[0]->Get("later", absl::InfiniteFuture()).status();
              }
              for (int i = 0; i < 100; ++i) runtime.Yield();
              return stores[1]->Put("later", "here");
            }),
        Each(IsOk()));
  });
}

TEST_P(StoreTest, AKeyThatDoesNotComeIsADeadlineThatNamesIt) {
  OnBothRuntimes([&](Runtime& runtime) {
    const auto stores = GetParam().make(runtime, 1);
    for (const absl::Time deadline :
         {absl::InfinitePast(), runtime.Now() + absl::Milliseconds(5)}) {
      EXPECT_THAT(stores[0]->Get("never/came", deadline),
                  StatusIs(absl::StatusCode::kDeadlineExceeded, "never/came"));
      EXPECT_GE(runtime.Now(), deadline);
    }
    // The store is whole afterwards.
    EXPECT_THAT(stores[0]->Put("never/came", "x"), IsOk());
    EXPECT_THAT(stores[0]->Get("never/came", absl::InfinitePast()), IsOk());
  });
}

TEST_P(StoreTest, AddsOfManyTasksAllCountAndAreAllSeen) {
  constexpr int kTasks = 8;
  constexpr int kAdds = 10;
  OnBothRuntimes([&](Runtime& runtime) {
    const auto stores = GetParam().make(runtime, kTasks);
    std::vector<std::vector<int64_t>> seen(kTasks);
    EXPECT_THAT(RunRanks(runtime, kTasks,
                         [&](Rank rank) -> absl::Status {
                           const auto task = static_cast<size_t>(ToInt(rank));
                           for (int i = 0; i < kAdds; ++i) {
                             const auto sum = stores[task]->Add("count", 1);
                             if (!sum.ok()) return sum.status();
                             seen[task].push_back(*sum);
                           }
                           return absl::OkStatus();
                         }),
                Each(IsOk()));
    std::vector<int64_t> all;
    for (const auto& sums : seen)
      all.insert(all.end(), sums.begin(), sums.end());
    std::sort(all.begin(), all.end());
    std::vector<int64_t> expected;
    for (int i = 1; i <= kTasks * kAdds; ++i) expected.push_back(i);
    EXPECT_THAT(all, ElementsAreArray(expected));
  });
}

TEST_P(StoreTest, CountersAndValuesHaveKeysOfTheirOwn) {
  OnBothRuntimes([&](Runtime& runtime) {
    const auto stores = GetParam().make(runtime, 1);
    EXPECT_THAT(stores[0]->Put("key", "value"), IsOk());
    EXPECT_EQ(*stores[0]->Add("key", 5), 5);
    EXPECT_EQ(*stores[0]->Add("key", -7), -2);
    EXPECT_EQ(*stores[0]->Get("key", absl::InfinitePast()), "value");
    EXPECT_THAT(stores[0]->Get("only/counted", absl::InfinitePast()),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
  });
}

TEST_P(StoreTest, KeysThatLookAlikeAreDifferent) {
  const std::string longest(512, 'k');
  const std::vector<std::string> keys = {"a/b",
                                         "a:b",
                                         "a.b",
                                         "a-b",
                                         "a_b",
                                         "A/b",
                                         ".",
                                         "..",
                                         "/",
                                         "a/",
                                         longest,
                                         longest.substr(1),
                                         longest.substr(0, 200),
                                         longest.substr(0, 201)};
  OnBothRuntimes([&](Runtime& runtime) {
    const auto stores = GetParam().make(runtime, 2);
    for (const std::string& key : keys) {
      EXPECT_THAT(stores[0]->Put(key, key), IsOk());
    }
    for (const std::string& key : keys) {
      const auto value = stores[1]->Get(key, absl::InfinitePast());
      ASSERT_THAT(value, IsOk());
      EXPECT_EQ(*value, key);
    }
  });
}

TEST_P(StoreTest, ABadKeyIsRefusedByEveryMethod) {
  OnBothRuntimes([&](Runtime& runtime) {
    const auto stores = GetParam().make(runtime, 1);
    for (const std::string& key :
         {std::string(), std::string("a b"), std::string("a%b"),
          std::string("a\0b", 3), std::string("\xC3\xA9"),
          std::string(513, 'k')}) {
      EXPECT_THAT(stores[0]->Put(key, ""),
                  StatusIs(absl::StatusCode::kInvalidArgument));
      EXPECT_THAT(stores[0]->Get(key, absl::InfinitePast()),
                  StatusIs(absl::StatusCode::kInvalidArgument));
      EXPECT_THAT(stores[0]->Add(key, 1),
                  StatusIs(absl::StatusCode::kInvalidArgument));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreTest,
    ::testing::Values(StoreCase{"InProcess", InProcess},
                      StoreCase{"OneFileStore", OneFileStore},
                      StoreCase{"FileStores", FileStores},
                      StoreCase{"OneTcpStore", OneTcpStore, true},
                      StoreCase{"TcpStores", TcpStores, true}),
    [](const TestParamInfo<StoreCase>& test) { return test.param.name; });

}  // namespace
}  // namespace muonshard
