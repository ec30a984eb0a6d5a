// Real ranks: shells, which wait for each other at named pipes.

#include "tools/launcher/launch_main.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace muonshard {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class LaunchMainTest : public ::testing::Test {
 protected:
  LaunchMainTest() {
    folder_ = absl::StrCat(::testing::TempDir(), "/launch.XXXXXX");
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    // Opened for both, a named pipe without a writer is waited at for ever.
    EXPECT_EQ(mkfifo(Path("never").c_str(), 0600), 0);
    EXPECT_EQ(setenv("NEVER", Path("never").c_str(), 1), 0);
    EXPECT_EQ(setenv("FOLDER", folder_.c_str(), 1), 0);
  }

  std::string Path(absl::string_view name) const {
    return absl::StrCat(folder_, "/", name);
  }

  int Launch(std::vector<std::string> arguments) {
    out_.str("");
    errors_.str("");
    const std::vector<absl::string_view> views(arguments.begin(),
                                               arguments.end());
    return LaunchMain(views, out_, errors_);
  }

  // Ranks of /bin/sh, each running `script`.
  int Shells(std::vector<std::string> flags, const std::string& script) {
    flags.insert(flags.end(), {"--", "/bin/sh", "-c", script});
    return Launch(std::move(flags));
  }

  std::vector<std::string> Lines() const {
    return absl::StrSplit(out_.str(), '\n', absl::SkipEmpty());
  }

  std::string folder_;
  std::ostringstream out_;
  std::ostringstream errors_;
};

TEST_F(LaunchMainTest, RanksKnowTheirPlaceAndWriteWholeLines) {
  EXPECT_EQ(Shells({"-n", "3"},
                   "printf 'rank %s of ' $MUONSHARD_RANK; echo $MUONSHARD_SIZE;"
                   "echo local $MUONSHARD_LOCAL_RANK of $MUONSHARD_LOCAL_SIZE;"
                   "printf 'no end' >&2"),
            0);
  EXPECT_THAT(Lines(),
              UnorderedElementsAre("[0] rank 0 of 3", "[0] local 0 of 3",
                                   "[1] rank 1 of 3", "[1] local 1 of 3",
                                   "[2] rank 2 of 3", "[2] local 2 of 3"));
  EXPECT_THAT(
      std::vector<std::string>(absl::StrSplit(errors_.str(), '\n')),
      UnorderedElementsAre("[0] no end", "[1] no end", "[2] no end", ""));
}

TEST_F(LaunchMainTest, LinesArePassedOnAsTheyAreWithoutAPrefix) {
  EXPECT_EQ(Shells({"-n", "1", "--prefix=off"}, "echo '  two  spaces'"), 0);
  EXPECT_EQ(out_.str(), "  two  spaces\n");
}

TEST_F(LaunchMainTest, AllOfALongOutputArrives) {
  EXPECT_EQ(Shells({"-n", "2"}, "seq 1 50000"), 0);
  EXPECT_EQ(Lines().size(), 100000u);
}

TEST_F(LaunchMainTest, RanksMeetInOneStoreWithOneSecret) {
  const std::string show = "echo $MUONSHARD_STORE $MUONSHARD_STORE_SECRET";
  EXPECT_EQ(Shells({"-n", "2", "--prefix=off"}, show), 0);
  ASSERT_EQ(Lines().size(), 2u);
  EXPECT_EQ(Lines()[0], Lines()[1]);
  const std::vector<std::string> parts = absl::StrSplit(Lines()[0], ' ');
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_THAT(parts[0], StartsWith("tcp:127.0.0.1:"));
  EXPECT_EQ(parts[1].size(), 32u);
  const std::string first_job = parts[1];
  EXPECT_EQ(Shells({"-n", "1", "--prefix=off"}, show), 0);
  EXPECT_THAT(out_.str(), Not(HasSubstr(first_job)));
}

TEST_F(LaunchMainTest, AStoreOfFilesIsFreshAndLeavesNothing) {
  EXPECT_EQ(Shells({"-n", "1", "--store=file:" + Path("store"), "--prefix=off"},
                   "echo $MUONSHARD_STORE; echo ${MUONSHARD_STORE_SECRET-none};"
                   "test -d ${MUONSHARD_STORE#file:}"),
            0);
  ASSERT_EQ(Lines().size(), 2u);
  EXPECT_THAT(Lines()[0], StartsWith("file:" + Path("store") + "/launch."));
  EXPECT_EQ(Lines()[1], "none");
  EXPECT_TRUE(std::filesystem::is_empty(Path("store")));
}

TEST_F(LaunchMainTest, OtherLaunchersVariablesDoNotReachRanks) {
  setenv("OMPI_COMM_WORLD_RANK", "7", 1);
  setenv("PMI_RANK", "7", 1);
  setenv("WORLD_SIZE", "8", 1);
  setenv("OF_THE_USER", "kept", 1);
  EXPECT_EQ(Shells({"-n", "1", "--prefix=off"},
                   "echo ${OMPI_COMM_WORLD_RANK-no} ${PMI_RANK-no} "
                   "${WORLD_SIZE-no} $OF_THE_USER"),
            0);
  EXPECT_EQ(out_.str(), "no no no kept\n");
  unsetenv("OMPI_COMM_WORLD_RANK");
  unsetenv("PMI_RANK");
  unsetenv("WORLD_SIZE");
  unsetenv("OF_THE_USER");
}

TEST_F(LaunchMainTest, TheFirstRankToFailEndsTheRest) {
  EXPECT_EQ(
      Shells({"-n", "3", "--grace-seconds=3600"},
             "if [ $MUONSHARD_RANK = 1 ]; then echo last word; exit 3; fi;"
             "read x <>$NEVER"),
      3);
  EXPECT_THAT(errors_.str(),
              AllOf(HasSubstr("launch: rank 1 (process "),
                    HasSubstr("ended with exit status 3; ending the other")));
  EXPECT_THAT(Lines(), ElementsAre("[1] last word"));
}

TEST_F(LaunchMainTest, ASignalThatKilledARankIsNamed) {
  EXPECT_EQ(Shells({"-n", "2"},
                   "if [ $MUONSHARD_RANK = 0 ]; then kill -KILL $$; fi;"
                   "read x <>$NEVER"),
            128 + SIGKILL);
  EXPECT_THAT(errors_.str(),
              AllOf(HasSubstr("rank 0"), HasSubstr("killed by signal 9")));
}

TEST_F(LaunchMainTest, WhatARankStartedEndsWithIt) {
  // The pipe of the one left behind is closed by its end, not by patience.
  EXPECT_EQ(Shells({"-n", "2", "--grace-seconds=3600"},
                   "(read x <>$NEVER) & echo started"),
            0);
  EXPECT_EQ(Lines().size(), 2u);
}

TEST_F(LaunchMainTest, ARankThatDoesNotEndIsKilled) {
  ASSERT_EQ(mkfifo(Path("deaf").c_str(), 0600), 0);
  EXPECT_EQ(Shells({"-n", "2", "--grace-seconds=0.01"},
                   "if [ $MUONSHARD_RANK = 0 ]; then"
                   " trap '' TERM; echo >$FOLDER/deaf; read x <>$NEVER;"
                   "fi; read x <$FOLDER/deaf; exit 4"),
            4);
  EXPECT_THAT(errors_.str(), AllOf(HasSubstr("rank 0"),
                                   HasSubstr("did not end within 0.01 s")));
}

TEST_F(LaunchMainTest, OthersGoOnIfToldTo) {
  ASSERT_EQ(mkfifo(Path("go").c_str(), 0600), 0);
  EXPECT_EQ(Shells({"-n", "3", "--keep-going"},
                   "case $MUONSHARD_RANK in"
                   " 0) read x <$FOLDER/go; echo went on;;"
                   " 1) exit 5;;"
                   " 2) echo >$FOLDER/go;;"
                   "esac"),
            5);
  EXPECT_THAT(Lines(), ElementsAre("[0] went on"));
  EXPECT_THAT(errors_.str(), AllOf(HasSubstr("rank 1"), HasSubstr("status 5"),
                                   Not(HasSubstr("ending"))));
}

// Some programs ignore it for all that they start.
TEST_F(LaunchMainTest, RanksEndAlsoWhereTheEndsOfChildrenAreIgnored) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(Shells({"-n", "2"}, "exit $((3 * MUONSHARD_RANK))"), 3);
  EXPECT_EQ(signal(SIGCHLD, before), SIG_IGN);
  EXPECT_THAT(errors_.str(), HasSubstr("rank 1"));
}

TEST_F(LaunchMainTest, SignalsArePassedOn) {
  for (const auto& [name, number] :
       {std::pair("TERM", SIGTERM), std::pair("INT", SIGINT)}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(
        Shells({"-n", "1", "--grace-seconds=3600"},
               absl::StrCat("trap 'echo got it; exit 0' ", name, "; kill -",
                            name, " $PPID; cat <>$NEVER & wait")),
        128 + number);
    EXPECT_EQ(out_.str(), "[0] got it\n");
    EXPECT_THAT(errors_.str(),
                HasSubstr(absl::StrCat("got signal ", number, " ")));
  }
}

TEST_F(LaunchMainTest, ASecondSignalKills) {
  EXPECT_EQ(Shells({"-n", "1", "--grace-seconds=3600"},
                   "trap 'kill -INT $PPID' TERM; kill -TERM $PPID;"
                   "while :; do cat <>$NEVER & wait; done"),
            128 + SIGTERM);
  EXPECT_THAT(errors_.str(), HasSubstr("killing them"));
}

TEST_F(LaunchMainTest, AProgramThatCannotBeStartedIsTold) {
  EXPECT_EQ(Launch({"-n", "2", "--", "no-such-program"}), 127);
  EXPECT_THAT(errors_.str(),
              AllOf(StartsWith("launch: "), HasSubstr("no-such-program"),
                    HasSubstr("$PATH")));
  EXPECT_EQ(Launch({"--", Path("absent")}), 127);
  std::ofstream(Path("text")) << "not a program\n";
  EXPECT_EQ(Launch({"--", Path("text")}), 126);
  EXPECT_THAT(errors_.str(), HasSubstr("Permission denied"));
  ASSERT_EQ(chmod(Path("text").c_str(), 0700), 0);
  EXPECT_EQ(Launch({"--", Path("text")}), 126);
  EXPECT_THAT(errors_.str(), HasSubstr("Exec format error"));
  EXPECT_EQ(Launch({"--", folder_}), 126);
}

TEST_F(LaunchMainTest, WrongFlagsAreOneLine) {
  const std::vector<std::vector<std::string>> cases = {
      {"-n", "0", "--", "true"}, {"-n", "2"},  {"-n", "2", "true"},
      {"--fly", "--", "true"},   {"-n", "--"}, {"--store=ftp:x", "--", "true"},
  };
  for (const std::vector<std::string>& arguments : cases) {
    EXPECT_EQ(Launch(arguments), 2);
    const std::string said = errors_.str();
    EXPECT_THAT(said, StartsWith("launch: "));
    EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
  }
  EXPECT_THAT(out_.str(), IsEmpty());
}

TEST_F(LaunchMainTest, AStoreThatCannotBeServedIsTold) {
  EXPECT_EQ(Launch({"--store=file:/dev/null", "--", "/bin/true"}), 1);
  EXPECT_THAT(errors_.str(), HasSubstr("/dev/null"));
  EXPECT_EQ(Launch({"--store=tcp:192.0.2.1:4000", "--", "/bin/true"}), 1);
  EXPECT_THAT(errors_.str(), HasSubstr("192.0.2.1"));
}

TEST_F(LaunchMainTest, HelpNamesFlagsAndVariables) {
  EXPECT_EQ(Launch({"--help"}), 0);
  EXPECT_THAT(out_.str(),
              AllOf(HasSubstr("--keep-going"), HasSubstr("MUONSHARD_{RANK")));
}

}  // namespace
}  // namespace muonshard
