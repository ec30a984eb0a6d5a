#include "testing/recovery/blame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muonshard::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(BlameTest, TheMissingAreToBlameWhereNobodyHoldsThemUp) {
  EXPECT_THAT(BlamedIn("the split of group \"world\": 6 of 8 ranks came; "
                       "missing ranks 0, 3 [rank 0]"),
              ElementsAre(ElementsAre(0, 3)));
}

TEST(BlameTest, RanksAreThoseOfTheWorld) {
  EXPECT_THAT(BlamedIn("1 of 4 ranks arrived; missing ranks 0, 1 (ranks 4, 6 "
                       "of the world); the producers have not ended on rank 2 "
                       "(rank 7 of the world) [rank 0]"),
              ElementsAre(ElementsAre(4, 6, 7)));
}

TEST(BlameTest, WhoHoldsUpIsToBlameInsteadOfTheMissing) {
  EXPECT_THAT(
      BlamedIn("2 of 4 ranks arrived; missing ranks 0, 2; held up by ranks 4, "
               "12 of the world [rank 0]; here: group \"g\": deadline passed; "
               "1 of 2 ranks arrived; the producers have not ended on rank 0; "
               "held up by rank 5 of the world [rank 0]"),
      ElementsAre(ElementsAre(4, 12), ElementsAre(5)));
}

TEST(BlameTest, WhatIsCutShortOrOfAnotherKindBlamesNobody) {
  for (const char* text :
       {"", "rank 3 left the group [rank 3]", "7 of 8 ranks came; missing r...",
        "missing ranks 0, 2, 4... operation 3", "rank 1 aborted [rank 1]"}) {
    EXPECT_THAT(BlamedIn(text), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace muonshard::testing
