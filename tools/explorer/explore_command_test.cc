#include "tools/explorer/explore_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "testing/exploration/recorded_run.h"

namespace muonshard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
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

// A trace without deviations, recorded by nobody.
testing::TraceFile InventedTrace() {
  testing::TraceFile file;
  file.flags = kSmall;
  file.run.seed = 3;
  file.run.result = absl::DataLossError("what was wrong");
  file.run.trace = SimTrace();
  return file;
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
  EXPECT_EQ(ended.code, 0) << ended.out << ended.errors;
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
