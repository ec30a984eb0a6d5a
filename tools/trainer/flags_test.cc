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
  EXPECT_THAT(Error({"wide"}), HasSubstr("unknown flag \"wide\""));
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

TEST_F(FlagTableTest, AMissingValueIsAnError) {
  EXPECT_THAT(Error({"--narrow"}), HasSubstr("--narrow: want a value"));
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
