#include "tools/trainer/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muonshard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Values {
  std::string text = "first";
  int64_t wide = 5;
  int32_t narrow = 6;
  uint64_t seed = 7;
  double number = 0.5;
  bool on = true;
  int32_t choice = 1;
};

class FlagTableTest : public ::testing::Test {
 protected:
  FlagTableTest() {
    table_.AddText("text", "T", "a text", &values_.text);
    table_.AddInteger("wide", "64 bits", int64_t{1}, int64_t{1} << 40,
                      &values_.wide);
    table_.AddInteger("narrow", "32 bits", 1, 9, &values_.narrow);
    table_.AddSeed("seed", "a seed", &values_.seed);
    table_.AddNumber("number", "a number", 0, 1, &values_.number);
    table_.AddSwitch("switch", "a switch", &values_.on);
    table_.AddChoice("choice", "a choice", {"red", "blue"}, &values_.choice);
  }

  std::string Error(std::vector<absl::string_view> arguments) {
    const absl::Status status = table_.Parse(arguments);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  Values values_;
  FlagTable table_;
};

TEST_F(FlagTableTest, NothingGivenKeepsTheDefaults) {
  ASSERT_TRUE(table_.Parse({}).ok());
  EXPECT_EQ(values_.text, "first");
  EXPECT_EQ(values_.wide, 5);
  EXPECT_FALSE(table_.given("wide"));
}

TEST_F(FlagTableTest, ValuesMayFollowAnEqualsSignOrASpace) {
  const std::vector<absl::string_view> arguments = {
      "--text=a=b",    "--wide",   "1099511627776",
      "--narrow=9",    "--seed",   "18446744073709551615",
      "--number=0.25", "--choice", "red",
      "--switch=off"};
  ASSERT_TRUE(table_.Parse(arguments).ok());
  EXPECT_EQ(values_.text, "a=b");
  EXPECT_EQ(values_.wide, int64_t{1} << 40);
  EXPECT_EQ(values_.narrow, 9);
  EXPECT_EQ(values_.seed, ~uint64_t{0});
  EXPECT_EQ(values_.number, 0.25);
  EXPECT_EQ(values_.choice, 0);
  EXPECT_FALSE(values_.on);
  EXPECT_TRUE(table_.given("wide"));
  EXPECT_FALSE(table_.given("help"));
  EXPECT_FALSE(table_.given("no such flag"));
}

TEST_F(FlagTableTest, ASwitchWithoutAValueIsOn) {
  values_.on = false;
  ASSERT_TRUE(table_.Parse(std::vector<absl::string_view>{"--switch"}).ok());
  EXPECT_TRUE(values_.on);
}

TEST_F(FlagTableTest, TheLastOfTwoValuesCounts) {
  ASSERT_TRUE(
      table_.Parse(std::vector<absl::string_view>{"--narrow=2", "--narrow=3"})
          .ok());
  EXPECT_EQ(values_.narrow, 3);
}

TEST_F(FlagTableTest, AnUnknownFlagListsTheKnownOnes) {
  EXPECT_THAT(Error({"--wid=3"}),
              AllOf(HasSubstr("unknown flag \"--wid\""), HasSubstr("--wide"),
                    HasSubstr("--choice"), HasSubstr("--help")));
  EXPECT_THAT(Error({"-x"}), HasSubstr("unknown flag \"-x\""));
}

TEST_F(FlagTableTest, AValueOutOfRangeIsToldTheRange) {
  for (const absl::string_view wrong : {"0", "10", "3.5", "x", ""}) {
    EXPECT_THAT(Error({"--narrow", wrong}),
                HasSubstr("--narrow: want a whole number in [1, 9], got \""));
  }
  EXPECT_THAT(Error({"--seed=-1"}), HasSubstr("--seed: want a whole number"));
  for (const absl::string_view wrong : {"-0.1", "1.5", "nan", "x"}) {
    EXPECT_THAT(Error({"--number", wrong}),
                HasSubstr("--number: want a number in [0, 1], got \""));
  }
  EXPECT_THAT(Error({"--switch=maybe"}),
              HasSubstr("--switch: want on or off, got \"maybe\""));
  EXPECT_THAT(Error({"--choice=green"}),
              HasSubstr("--choice: want red or blue, got \"green\""));
}

TEST_F(FlagTableTest, ARangeIsShownInPlainNumbers) {
  double mib = 25;
  table_.AddNumber("mib", "a size", 0, 1 << 20, &mib);
  EXPECT_THAT(Error({"--mib=-1"}), HasSubstr("a number in [0, 1048576], got"));
}

TEST_F(FlagTableTest, AMissingOrEmptyValueIsAnError) {
  EXPECT_THAT(Error({"--narrow"}), HasSubstr("--narrow: want a value"));
  EXPECT_THAT(Error({"--text="}), HasSubstr("--text: want T, got \"\""));
  EXPECT_THAT(Error({"--text", ""}), HasSubstr("--text: want T, got \"\""));
  EXPECT_THAT(Error({"--switch="}), HasSubstr("--switch: want on or off"));
  EXPECT_EQ(values_.text, "first");
}

TEST_F(FlagTableTest, ASwitchIsToldToTakeItsValueAfterAnEqualsSign) {
  EXPECT_THAT(Error({"--switch", "off"}),
              HasSubstr("unexpected argument \"off\"; write --switch=off"));
}

TEST_F(FlagTableTest, AnArgumentOfNoFlagIsUnexpected) {
  for (const std::vector<absl::string_view>& arguments :
       {std::vector<absl::string_view>{"wide"},
        {"--narrow=2", "wide"},
        {"--switch=on", "wide"},
        {"--switch", "--narrow", "2", "wide"},
        {"--help", "wide"}}) {
    EXPECT_THAT(
        Error(arguments),
        HasSubstr("unexpected argument \"wide\"; a flag begins with --"));
  }
}

TEST_F(FlagTableTest, HelpHasAShortNameAndNoValue) {
  EXPECT_THAT(Error({"--help=foo"}),
              HasSubstr("--help: want no value, got \"foo\""));
  EXPECT_FALSE(table_.help_wanted());
  ASSERT_TRUE(table_.Parse(std::vector<absl::string_view>{"-h"}).ok());
  EXPECT_TRUE(table_.help_wanted());
}

TEST_F(FlagTableTest, HelpNamesEachFlagItsValuesAndItsDefault) {
  ASSERT_TRUE(table_.Parse(std::vector<absl::string_view>{"--help"}).ok());
  EXPECT_TRUE(table_.help_wanted());
  const std::string help = table_.Help();
  EXPECT_THAT(help, HasSubstr("--choice=red|blue"));
  EXPECT_THAT(help, HasSubstr("a choice [blue]"));
  EXPECT_THAT(help, HasSubstr("a number [0.5]"));
  EXPECT_THAT(help, HasSubstr("a switch [on]"));
}

}  // namespace
}  // namespace muonshard
