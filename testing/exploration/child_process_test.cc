#include "testing/exploration/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(ChildProcess, TellsItsLinesInOrder) {
  std::vector<std::vector<std::string>> told(3);
  const std::vector<absl::Status> ends = RunInChildren(
      3,
      [](size_t index, const Tell& tell) {
        tell(absl::StrCat("first of ", index));
        // More than a pipe holds.
        tell(std::string(1 << 20, 'x'));
        tell("");
      },
      [&](size_t index, const std::string& line) {
        told[index].push_back(line);
      },
      absl::InfiniteDuration());
  EXPECT_THAT(ends, Each(IsOk()));
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_THAT(told[i], ElementsAre(absl::StrCat("first of ", i),
                                     std::string(1 << 20, 'x'), ""));
  }
}

TEST(ChildProcess, ThatCrashesHasToldWhatItToldBefore) {
  std::vector<std::string> told;
  const std::vector<absl::Status> ends = RunInChildren(
      2,
      [](size_t index, const Tell& tell) {
        tell(absl::StrCat(index));
        if (index == 1) raise(SIGKILL);
      },
      [&](size_t, const std::string& line) { told.push_back(line); },
      absl::InfiniteDuration());
  EXPECT_THAT(ends, ElementsAre(IsOk(), StatusIs(absl::StatusCode::kInternal,
                                                 "signal 9 (Killed)")));
  EXPECT_EQ(told.size(), 2u);
}

TEST(ChildProcess, ThatEndsWithAnExitCodeIsAnError) {
  const std::vector<absl::Status> ends = RunInChildren(
      1, [](size_t, const Tell&) { _exit(3); },
      [](size_t, const std::string&) {}, absl::InfiniteDuration());
  EXPECT_THAT(
      ends, ElementsAre(StatusIs(absl::StatusCode::kInternal, "exit code 3")));
}

[[noreturn]] void SpinForEver() {
  for (volatile int turn = 0;;) turn = 1 - turn;
}

TEST(ChildProcess, ThatIsSilentForTooLongIsKilledAndTheOthersAreNot) {
  std::vector<std::string> told;
  const std::vector<absl::Status> ends = RunInChildren(
      3,
      [](size_t index, const Tell& tell) {
        tell(absl::StrCat(index));
        if (index == 1) SpinForEver();
      },
      [&](size_t, const std::string& line) { told.push_back(line); },
      absl::Milliseconds(500));
  EXPECT_THAT(ends, ElementsAre(IsOk(),
                                StatusIs(absl::StatusCode::kDeadlineExceeded,
                                         "told nothing and did not end for "
                                         "500ms, and was killed"),
                                IsOk()));
  EXPECT_EQ(told.size(), 3u);
}

TEST(ChildProcess, ThatIsKilledHasEnded) {
  pid_t process = -1;
  RunInChildren(
      1,
      [](size_t, const Tell& tell) {
        tell(absl::StrCat(getpid()));
        SpinForEver();
      },
      [&](size_t, const std::string& line) {
        ASSERT_TRUE(absl::SimpleAtoi(line, &process));
      },
      absl::Milliseconds(500));
  // Nothing of it is left, not even its exit code.
  EXPECT_EQ(kill(process, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(ChildProcess, ChangesNothingInTheCaller) {
  int value = 1;
  RunInChildren(
      1, [&](size_t, const Tell&) { value = 2; },
      [](size_t, const std::string&) {}, absl::InfiniteDuration());
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace muonshard::testing
