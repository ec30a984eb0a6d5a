#include "plugins/support/outcome.h"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <string>

namespace muonshard::plugins {
namespace {

TEST(OutcomeTest, AReportHasAllThatTheOutcomeHas) {
  muonshard_status status;
  EXPECT_EQ(
      Report(
          {.code = MUONSHARD_E_PEER, .text = "gone", .rank = 3, .sequence = 17},
          &status),
      MUONSHARD_E_PEER);
  EXPECT_EQ(status.code, MUONSHARD_E_PEER);
  EXPECT_EQ(status.rank, 3);
  EXPECT_EQ(status.sequence, 17u);
  EXPECT_STREQ(status.text, "gone");
  EXPECT_EQ(Report({.code = MUONSHARD_E_PEER}, nullptr), MUONSHARD_E_PEER);
}

TEST(OutcomeTest, ATextThatDoesNotFitLosesItsMiddle) {
  muonshard_status status;
  const std::string full(sizeof(status.text) - 1, 'x');
  Report({.text = full}, &status);
  EXPECT_EQ(status.text, full);
  Report({.text = "what: " + full + ": rank 5 died"}, &status);
  const std::string cut = status.text;
  EXPECT_EQ(cut.size(), full.size());
  EXPECT_EQ(cut.substr(0, 8), "what: xx");
  EXPECT_NE(cut.find("x...x"), std::string::npos);
  EXPECT_EQ(cut.substr(cut.size() - 15), "xx: rank 5 died");
}

TEST(OutcomeTest, MemoryThatRunsOutIsAnError) {
  muonshard_status status;
  const auto fail = []() -> Outcome { throw std::bad_alloc(); };
  EXPECT_EQ(Guarded(&status, fail), MUONSHARD_E_MEMORY);
  EXPECT_STREQ(status.text, "out of memory");
}

TEST(OutcomeTest, RanksAreListed) {
  EXPECT_EQ(RankList({2}), "rank 2");
  EXPECT_EQ(RankList({2, 5}), "ranks 2, 5");
}

}  // namespace
}  // namespace muonshard::plugins
