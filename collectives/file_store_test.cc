// What is particular to a store of files: processes, and a folder's troubles.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/runtime/sim_runtime.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/store.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

class FileStoreTest : public ::testing::Test {
 protected:
  FileStoreTest() {
    folder_ = absl::StrCat(::testing::TempDir(), "/files.XXXXXX");
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }

  std::string folder_;
};

// What each process of the first test does; true if all went well.
bool AddAndMeet(const std::string& folder, int process, int processes,
                int adds) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const auto store = NewFileStore(*runtime, folder);
  if (!store.ok()) return false;
  for (int i = 0; i < adds; ++i) {
    if (!(*store)->Add("count", 1).ok()) return false;
  }
  if (!(*store)->Put(absl::StrCat("done/", process), "yes").ok()) return false;
  for (int p = 0; p < processes; ++p) {
    const auto value = (*store)->Get(absl::StrCat("done/", p),
                                     runtime->Now() + absl::Seconds(60));
    if (!value.ok() || *value != "yes") return false;
  }
  return true;
}

// First in this file: the processes fork before this one has a second thread.
TEST_F(FileStoreTest, ProcessesMeetAndEachAddCounts) {
  constexpr int kProcesses = 4;
  constexpr int kAdds = 25;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(AddAndMeet(folder_, p, kProcesses, kAdds) ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int ended = 0;
    ASSERT_EQ(waitpid(child, &ended, 0), child);
    EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
  }
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const auto store = NewFileStore(*runtime, folder_);
  ASSERT_THAT(store, IsOk());
  EXPECT_EQ(*(*store)->Add("count", 0), kProcesses * kAdds);
}

TEST_F(FileStoreTest, AProcessThatDiesWithTheLockDoesNotKeepIt) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const auto store = NewFileStore(*runtime, folder_);
  ASSERT_THAT(store, IsOk());
  ASSERT_EQ(*(*store)->Add("count", 3), 3);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const int lock = open(absl::StrCat(folder_, "/lock").c_str(), O_RDWR);
    // Ends with the lock in its hands.
    _exit(lock >= 0 && flock(lock, LOCK_EX) == 0 ? 0 : 1);
  }
  int ended = 0;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  ASSERT_EQ(ended, 0);
  const auto sum = (*store)->Add("count", 4);
  ASSERT_THAT(sum, IsOk());
  EXPECT_EQ(*sum, 7);
}

TEST_F(FileStoreTest, ALockThatIsNeverLetGoIsUnavailable) {
  const int lock =
      open(absl::StrCat(folder_, "/lock").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(lock, 0);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  // Waits in virtual time.
  const std::unique_ptr<SimRuntime> sim = SimRuntime::Create({.seed = 1});
  const absl::Status ended = sim->Run([&] {
    const auto store = NewFileStore(*sim, folder_);
    ASSERT_THAT(store, IsOk());
    EXPECT_THAT((*store)->Add("count", 1),
                StatusIs(absl::StatusCode::kUnavailable, "/lock"));
  });
  EXPECT_THAT(ended, IsOk());
  close(lock);
}

TEST_F(FileStoreTest, AHalfWrittenValueIsNotSeen) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const auto store = NewFileStore(*runtime, folder_);
  ASSERT_THAT(store, IsOk());
  // What a writer that dies before it renames leaves behind.
  std::ofstream(absl::StrCat(folder_, "/aside.abcdef")) << "hal";
  EXPECT_THAT((*store)->Get("aside.abcdef", absl::InfinitePast()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(FileStoreTest, ItsFolderIsCreated) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const std::string deep = absl::StrCat(folder_, "/a/b");
  const auto store = NewFileStore(*runtime, deep);
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->Put("key", "value"), IsOk());
  EXPECT_TRUE(std::filesystem::is_directory(deep));
}

TEST_F(FileStoreTest, AFolderThatCannotBeIsUnavailable) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  EXPECT_THAT(NewFileStore(*runtime, ""),
              StatusIs(absl::StatusCode::kInvalidArgument, "folder"));
  const std::string file = absl::StrCat(folder_, "/file");
  std::ofstream(file) << "not a folder";
  EXPECT_THAT(NewFileStore(*runtime, absl::StrCat(file, "/below")),
              StatusIs(absl::StatusCode::kUnavailable, file));
  EXPECT_THAT(NewFileStore(*runtime, file),
              StatusIs(absl::StatusCode::kUnavailable, file));
}

TEST_F(FileStoreTest, AFolderThatGoesAwayIsUnavailable) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const auto store = NewFileStore(*runtime, folder_);
  ASSERT_THAT(store, IsOk());
  std::filesystem::remove_all(folder_);
  std::ofstream(folder_) << "a file where the folder was";
  EXPECT_THAT((*store)->Put("key", "value"),
              StatusIs(absl::StatusCode::kUnavailable, folder_));
  EXPECT_THAT((*store)->Get("key", absl::InfinitePast()),
              StatusIs(absl::StatusCode::kUnavailable, folder_));
  EXPECT_THAT((*store)->Add("key", 1),
              StatusIs(absl::StatusCode::kUnavailable, folder_));
}

TEST_F(FileStoreTest, ACounterThatIsNoNumberIsUnavailable) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const auto store = NewFileStore(*runtime, folder_);
  ASSERT_THAT(store, IsOk());
  ASSERT_THAT((*store)->Add("key", 1), IsOk());
  std::ofstream(absl::StrCat(folder_, "/counter.key")) << "one";
  EXPECT_THAT((*store)->Add("key", 1),
              StatusIs(absl::StatusCode::kUnavailable, "\"one\""));
}

TEST_F(FileStoreTest, AFileThatCannotBeOpenedIsUnavailable) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const auto store = NewFileStore(*runtime, folder_);
  ASSERT_THAT(store, IsOk());
  // Links to themselves.
  for (const char* const name : {"value.key", "counter.key"}) {
    std::filesystem::create_symlink(name, absl::StrCat(folder_, "/", name));
  }
  EXPECT_THAT((*store)->Get("key", absl::InfinitePast()),
              StatusIs(absl::StatusCode::kUnavailable, "cannot open"));
  EXPECT_THAT((*store)->Add("key", 1),
              StatusIs(absl::StatusCode::kUnavailable, "counter.key"));
  const std::string lock = absl::StrCat(folder_, "/lock");
  std::filesystem::remove(lock);
  std::filesystem::create_directories(lock);
  EXPECT_THAT((*store)->Add("other", 1),
              StatusIs(absl::StatusCode::kUnavailable, lock));
}

TEST_F(FileStoreTest, AFolderOfALongKeyThatCannotBeIsUnavailable) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const auto store = NewFileStore(*runtime, folder_);
  ASSERT_THAT(store, IsOk());
  const std::string key(400, 'k');
  ASSERT_THAT((*store)->Put(key, "value"), IsOk());
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    std::filesystem::remove_all(entry.path());
    std::ofstream(entry.path()) << "a file where the folder was";
  }
  EXPECT_THAT((*store)->Put(key, "value"),
              StatusIs(absl::StatusCode::kUnavailable, "cannot make folder"));
}

TEST_F(FileStoreTest, AValueThatCannotBeWrittenIsUnavailable) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const auto store = NewFileStore(*runtime, folder_);
  ASSERT_THAT(store, IsOk());
  // No file may grow, as on a full disk; nothing is printed meanwhile.
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto previous = signal(SIGXFSZ, SIG_IGN);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  const int limited = setrlimit(RLIMIT_FSIZE, &none);
  const absl::Status put = (*store)->Put("key", "value");
  const int restored = setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, previous);
  ASSERT_EQ(limited, 0);
  ASSERT_EQ(restored, 0);
  EXPECT_THAT(put, StatusIs(absl::StatusCode::kUnavailable, "cannot write"));
  // Nothing is left of the attempt.
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(FileStoreTest, APlaceThatIsTakenIsUnavailable) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const auto store = NewFileStore(*runtime, folder_);
  ASSERT_THAT(store, IsOk());
  const std::string taken = absl::StrCat(folder_, "/value.key");
  std::filesystem::create_directories(taken);
  EXPECT_THAT((*store)->Put("key", "value"),
              StatusIs(absl::StatusCode::kUnavailable, taken));
  EXPECT_THAT((*store)->Get("key", absl::InfinitePast()),
              StatusIs(absl::StatusCode::kUnavailable, taken));
  // Nothing is left of the attempt.
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().string(), taken);
  }
}

}  // namespace
}  // namespace muonshard
