#include "plugins/loopback/fault_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace muonshard::loopback {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Kind = Fault::Kind;

TEST(FaultPlanTest, AnEmptyTextIsAnEmptyPlan) {
  for (const char* text : {"", "  "}) {
    std::vector<Fault> plan(1);
    EXPECT_TRUE(ParseFaultPlan(text, &plan).ok());
    EXPECT_TRUE(plan.empty());
  }
}

TEST(FaultPlanTest, EveryKindIsRead) {
  std::vector<Fault> plan;
  const Outcome outcome = ParseFaultPlan(
      "die rank=3 before=17;die after=18 rank=4; late  rank=1 at=4 ns=5000000 "
      ";lose rank=2 at=9;short rank=2 at=10;corrupt rank=2 at=11;"
      "duplicate rank=2 at=12;memory rank=1 at=5;abort rank=0 at=0",
      &plan);
  ASSERT_TRUE(outcome.ok()) << outcome.text;
  const std::vector<Fault> wanted = {
      {Kind::kDieBefore, 3, 17, 0, "die rank=3 before=17"},
      {Kind::kDieAfter, 4, 18, 0, "die after=18 rank=4"},
      {Kind::kLate, 1, 4, 5000000, "late  rank=1 at=4 ns=5000000"},
      {Kind::kLose, 2, 9, 0, "lose rank=2 at=9"},
      {Kind::kShort, 2, 10, 0, "short rank=2 at=10"},
      {Kind::kCorrupt, 2, 11, 0, "corrupt rank=2 at=11"},
      {Kind::kDuplicate, 2, 12, 0, "duplicate rank=2 at=12"},
      {Kind::kMemory, 1, 5, 0, "memory rank=1 at=5"},
      {Kind::kAbort, 0, 0, 0, "abort rank=0 at=0"},
  };
  EXPECT_EQ(plan, wanted);
}

TEST(FaultPlanTest, OnlyFourKindsConcernTheMessage) {
  int concerned = 0;
  for (const Kind kind : {Kind::kDieBefore, Kind::kDieAfter, Kind::kLate,
                          Kind::kLose, Kind::kShort, Kind::kCorrupt,
                          Kind::kDuplicate, Kind::kMemory, Kind::kAbort}) {
    concerned += Fault{.kind = kind}.concerns_message();
  }
  EXPECT_EQ(concerned, 4);
}

TEST(FaultPlanTest, WhatIsWrongIsSaidBesideWhatIsKnown) {
  const std::pair<const char*, const char*> cases[] = {
      {"dies rank=1 at=2", "no kind \"dies\""},
      {"die rank=1 at=2", "no key \"at\""},
      {"lose rank=1 before=2", "no key \"before\""},
      {"lose rank=1 at=2 ns=3", "no key \"ns\""},
      {"die rank=1 when=2", "no key \"when\""},
      {"die rank=1", "wants one operation"},
      {"die rank=1 before=1 after=1", "wants one operation"},
      {"die before=1", "wants a rank"},
      {"die rank before=1", "got \"\""},
      {"die rank= before=1", "got \"\""},
      {"die rank=-1 before=1", "got \"-1\""},
      {"die rank=x before=1", "got \"x\""},
      {"die rank=1 before=1x", "got \"1x\""},
      {"die rank=1 before=99999999999999999999", "whole number"},
      {"die rank=2147483648 before=1", "at most 2147483647"},
      {"die rank=1 rank=1 before=1", "\"rank\" twice"},
      {"late rank=1 at=4", "wants ns"},
      {"late rank=1 at=4 ns=1000000000000001", "wants ns"},
      {"die rank=1 before=2;", "no kind \"\""},
      {";", "no kind \"\""},
  };
  for (const auto& [text, complaint] : cases) {
    std::vector<Fault> plan;
    const Outcome outcome = ParseFaultPlan(text, &plan);
    EXPECT_EQ(outcome.code, MUONSHARD_E_ARGUMENT) << text;
    EXPECT_THAT(outcome.text,
                AllOf(HasSubstr(complaint), HasSubstr("die rank=R before=N"),
                      HasSubstr("abort rank=R at=N")))
        << text;
  }
}

TEST(FaultPlanTest, WhatCannotHappenTogetherIsRefused) {
  std::vector<Fault> plan;
  for (const char* text : {"die rank=1 before=2; die before=2 rank=1",
                           "lose rank=1 at=2; short rank=1 at=2"}) {
    const Outcome outcome = ParseFaultPlan(text, &plan);
    EXPECT_EQ(outcome.code, MUONSHARD_E_ARGUMENT) << text;
    EXPECT_THAT(outcome.text, HasSubstr("of one operation"));
  }
  for (const char* text : {"lose rank=1 at=2; short rank=1 at=3",
                           "lose rank=1 at=2; lose rank=2 at=2",
                           "late rank=1 at=2 ns=1; die rank=1 before=2"}) {
    EXPECT_TRUE(ParseFaultPlan(text, &plan).ok()) << text;
  }
}

}  // namespace
}  // namespace muonshard::loopback
