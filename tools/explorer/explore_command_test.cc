#include "tools/explorer/explore_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "collectives/runtime/sim_scheduler.h"
#include "testing/exploration/experiment.h"
#include "testing/exploration/recorded_run.h"
#include "testing/exploration/step_experiment.h"

namespace muonshard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Ended {
  int code;
  std::string out;
  std::string errors;
};

Ended Explored(const std::vector<absl::string_view>& arguments) {
  std::ostringstream out;
  std::ostringstream errors;
  const int code = ExploreMain(arguments, out, errors);
  return {code, out.str(), errors.str()};
}

std::string WriteTemporary(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path) << text;
  return path;
}

constexpr char kSmall[] =
    "--mesh=data=2,tp=1 --lanes-per-node=2 --hierarchical=off";

constexpr char kSmallMesh[] = "--mesh=data=2,tp=1";

// A trace without deviations, recorded by nobody.
testing::TraceFile InventedTrace() {
  testing::TraceFile file;
  file.flags = kSmall;
  file.run.seed = 3;
  file.run.result = absl::DataLossError("what was wrong");
  file.run.trace = SimTrace();
  return file;
}

// Makes some choices, and fails, or goes on without an end, where one of the
// first half was not the default one.
class Fragile final : public testing::Experiment {
 public:
  explicit Fragile(bool hangs) : hangs_(hangs) {}

  testing::ExploredRun Run(const testing::ExploredSchedule& schedule,
                           uint64_t) const override {
    const std::vector<uint64_t> tasks = {0, 1};
    testing::ExploredRun run;
    for (; run.choice_count < 100; ++run.choice_count) {
      const size_t chosen = schedule.scheduler.Choose(
          {.call = SimCall::kLock, .candidates = tasks, .caller = 0});
      run.trace_hash = MixBits(run.trace_hash + chosen);
      if (run.choice_count >= 50 || chosen == 0) continue;
      run.result = absl::DataLossError("broken");
      for (volatile bool spins = hangs_; spins;) continue;
    }
    return run;
  }

 private:
  const bool hangs_;
};

Ended ExploredFragile(bool hangs,
                      const std::vector<absl::string_view>& arguments) {
  std::ostringstream out;
  std::ostringstream errors;
  const int code = ExploreWith(
      [&](const testing::StepExperimentOptions&) {
        return std::make_unique<Fragile>(hangs);
      },
      arguments, out, errors);
  return {code, out.str(), errors.str()};
}

// Of the trace that the output names; empty if it names none.
std::string TracePath(const std::string& out) {
  const std::string again = "again: muonshard explore --replay ";
  const size_t at = out.find(again);
  if (at == std::string::npos) return "";
  const size_t begin = at + again.size();
  return out.substr(begin, out.find('\n', begin) - begin);
}

TEST(ExploreCommand, AFailingSeedIsShownKeptShrunkAndReplayed) {
  const std::string traces = absl::StrCat("--traces=", ::testing::TempDir());
  const Ended ended = ExploredFragile(
      false, {kSmallMesh, "--seeds=20", "--processes=1", traces});
  EXPECT_EQ(ended.code, 1) << ended.errors;
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("failed: DATA_LOSS: broken\n"),
                    HasSubstr(" deviations in 100 choices\n"),
                    HasSubstr("shrunk: 1 deviations in 100 choices: "
                              "DATA_LOSS: broken\n"),
                    HasSubstr("1 failed\n"), HasSubstr("hash of all traces")));
  EXPECT_EQ(ended.errors, "");

  const std::string path = TracePath(ended.out);
  EXPECT_THAT(path, StartsWith(::testing::TempDir()));
  for (int time = 0; time < 2; ++time) {
    const Ended again = ExploredFragile(false, {"--replay", path});
    EXPECT_EQ(again.code, 1) << again.errors;
    EXPECT_THAT(again.out, AllOf(HasSubstr(kSmallMesh),
                                 HasSubstr("1 deviations in 100 choices: "
                                           "DATA_LOSS: broken\n"),
                                 HasSubstr("the same run as recorded")));
  }
}

TEST(ExploreCommand, AFailingSeedIsNotShrunkWithoutABudget) {
  const std::string traces = absl::StrCat("--traces=", ::testing::TempDir());
  const Ended ended =
      ExploredFragile(false, {"--seeds=20", "--shrink-runs=0", traces});
  EXPECT_EQ(ended.code, 1) << ended.errors;
  EXPECT_THAT(ended.out, Not(HasSubstr("shrunk")));
  const Ended again =
      ExploredFragile(false, {"--replay", TracePath(ended.out)});
  EXPECT_EQ(again.code, 1) << again.errors;
  EXPECT_THAT(again.out, HasSubstr("the same run as recorded"));
}

TEST(ExploreCommand, ASeedThatHangsIsKilledAndItsReplayToo) {
  const std::string traces = absl::StrCat("--traces=", ::testing::TempDir());
  const Ended ended =
      ExploredFragile(true, {"--seeds=20", "--shrink-runs=0", "--processes=1",
                             "--run-limit-seconds=1", traces});
  EXPECT_EQ(ended.code, 1) << ended.errors;
  EXPECT_THAT(ended.out, HasSubstr("failed: DEADLINE_EXCEEDED: "));
  // The text names another limit.
  const Ended again = ExploredFragile(
      true, {"--replay", TracePath(ended.out), "--run-limit-seconds=2"});
  EXPECT_EQ(again.code, 1) << again.errors;
  EXPECT_THAT(again.out, AllOf(HasSubstr("did not end for 2s"),
                               HasSubstr("the same run as recorded")));
}

TEST(ExploreCommand, TracesWithoutAFolderAreRefusedBeforeTheSearch) {
  const Ended ended =
      ExploredFragile(false, {"--seeds=20", "--traces=/nowhere/at/all"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.out, "");
  EXPECT_THAT(ended.errors, AllOf(StartsWith("explore: --traces"),
                                  HasSubstr("/nowhere/at/all: No such file")));
}

TEST(ExploreCommand, ATraceThatCannotBeWrittenIsAnErrorBesideTheFailure) {
  const std::string traces =
      absl::StrCat(::testing::TempDir(), "/taken_traces");
  // What is to be a file is a folder.
  for (int seed = 0; seed <= 20; ++seed) {
    std::filesystem::create_directories(
        absl::StrCat(traces, "/muonshard-trace-", seed, ".txt"));
  }
  const Ended ended =
      ExploredFragile(false, {"--seeds=20", absl::StrCat("--traces=", traces)});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("failed: DATA_LOSS: broken"),
                               HasSubstr("hash of all traces: ")));
  EXPECT_THAT(ended.errors,
              AllOf(StartsWith("explore: "), HasSubstr("--traces"),
                    HasSubstr("/muonshard-trace-")));
}

TEST(ExploreCommand, FaultsThatCannotHappenAreErrorsOfUse) {
  const Ended ended =
      Explored({kSmallMesh, "--lanes-per-node=2", "--hierarchical=off",
                "--faults=die rank=2 "
                "before=1"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.out, "");
  EXPECT_THAT(ended.errors, HasSubstr("want a rank in [0, 2), got 2"));
}

TEST(ExploreCommand, RunsSeedsAndSumsUp) {
  const Ended ended =
      Explored({"--mesh=data=2,tp=1", "--lanes-per-node=2",
                "--hierarchical=off", "--seeds=10", "--processes=2"});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.errors;
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("10 runs of "), HasSubstr("10 held, 0 failed"),
                    HasSubstr("hash of all traces: ")));
  EXPECT_EQ(ended.errors, "");
}

TEST(ExploreCommand, HelpListsItsFlags) {
  const Ended ended = Explored({"--help"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("--replay"), HasSubstr("--seeds"),
                               HasSubstr("--vary")));
}

TEST(ExploreCommand, WrongArgumentsAreErrorsOfUse) {
  const auto refused = [](const std::vector<absl::string_view>& arguments,
                          const std::string& text) {
    const Ended ended = Explored(arguments);
    EXPECT_EQ(ended.code, 2) << ended.out;
    EXPECT_THAT(ended.errors, AllOf(StartsWith("explore: "), HasSubstr(text)));
  };
  refused({"--seeds=0"}, "--seeds");
  refused({"--processes=0"}, "--processes");
  refused({"--mesh=data="}, "data");
  refused({"--mesh=data=3,tp=1", "--lanes-per-node=2"}, "hierarchy");
  refused({"--what"}, "--what");
  refused({"--replay=/nowhere/at/all"}, "/nowhere/at/all");
}

TEST(ExploreCommand, AReplayOfAnotherProgramSaysSo) {
  const std::string path =
      WriteTemporary("invented.txt", ToText(InventedTrace()));
  const Ended ended = Explored({"--replay", path});
  EXPECT_EQ(ended.code, 3) << ended.out << ended.errors;
  EXPECT_THAT(ended.out, AllOf(HasSubstr(kSmall), HasSubstr("seed 3"),
                               HasSubstr("another run than recorded")));
}

TEST(ExploreCommand, ATraceThatIsNoneIsRefused) {
  const std::string text = ToText(InventedTrace());
  const auto refused = [](const std::string& content,
                          const std::string& reason) {
    const std::string path = WriteTemporary("bad.txt", content);
    const Ended ended = Explored({"--replay", path});
    EXPECT_EQ(ended.code, 2) << ended.out;
    EXPECT_THAT(ended.errors, AllOf(HasSubstr(path), HasSubstr(reason)));
  };
  refused(text.substr(0, text.size() / 2), "cut short");
  refused("muonshard trace 9\n", "want a trace of version 1, got \"9\"");
  refused("", "cut short");
  testing::TraceFile unknown = InventedTrace();
  unknown.flags = "--mesh=data=2 --speed=high";
  const Ended ended =
      Explored({"--replay", WriteTemporary("unknown.txt", ToText(unknown))});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.errors, HasSubstr("--speed"));
}

}  // namespace
}  // namespace muonshard
