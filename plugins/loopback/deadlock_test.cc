#include "plugins/loopback/deadlock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muonshard::loopback {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<size_t> Stuck(const std::vector<TaskWait>& waits) {
  return FindClosedWaits(waits).stuck;
}

TEST(DeadlockTest, NobodyInAWaitIsNoDeadlock) {
  EXPECT_THAT(Stuck({}), IsEmpty());
}

TEST(DeadlockTest, TwoThatLackEachOtherAreStuck) {
  const ClosedWaits closed =
      FindClosedWaits(std::vector<TaskWait>{{11, {12}}, {12, {11}}});
  EXPECT_THAT(closed.stuck, ElementsAre(0, 1));
  EXPECT_THAT(closed.cycle, ElementsAre(0, 1));
}

TEST(DeadlockTest, ATaskThatComputesBreaksTheCycle) {
  // 13 is in no wait, so 12 and then 11 may go on.
  EXPECT_THAT(Stuck({{11, {12}}, {12, {13}}}), IsEmpty());
}

TEST(DeadlockTest, OneStuckPeerIsEnough) {
  // 13 computes, but 11 needs 12 as well, which needs 11.
  EXPECT_THAT(Stuck({{11, {13, 12}}, {12, {11}}}), ElementsAre(0, 1));
}

TEST(DeadlockTest, ATaskOfWhichNothingIsKnownMayPost) {
  EXPECT_THAT(Stuck({{11, {0}}, {12, {11}}}), IsEmpty());
}

TEST(DeadlockTest, AWaitThatLacksNothingIsNotStuck) {
  EXPECT_THAT(Stuck({{11, {}}, {12, {11}}}), IsEmpty());
}

TEST(DeadlockTest, ATaskMayWaitForItself) {
  const ClosedWaits closed = FindClosedWaits(std::vector<TaskWait>{{11, {11}}});
  EXPECT_THAT(closed.cycle, ElementsAre(0));
}

TEST(DeadlockTest, WhoWaitsForACycleIsStuckButNotInIt) {
  // 10 -> 11 -> 12 -> 13 -> 11, and 20 waits for 21, which computes.
  const ClosedWaits closed = FindClosedWaits(std::vector<TaskWait>{
      {10, {11}}, {20, {21}}, {11, {12}}, {12, {13}}, {13, {11}}});
  EXPECT_THAT(closed.stuck, ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(closed.cycle, ElementsAre(2, 3, 4));
}

}  // namespace
}  // namespace muonshard::loopback
