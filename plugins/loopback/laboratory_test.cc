#include "plugins/loopback/laboratory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muonshard::loopback {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Fault> Plan(const std::string& text) {
  std::vector<Fault> plan;
  EXPECT_TRUE(ParseFaultPlan(text, &plan).ok());
  return plan;
}

TEST(LaboratoryTest, EveryRankCountsItsOwnOperations) {
  Laboratory laboratory({}, /*checks=*/false);
  EXPECT_EQ(laboratory.NextOperation(1).operation, 0u);
  EXPECT_EQ(laboratory.NextOperation(1).operation, 1u);
  EXPECT_EQ(laboratory.NextOperation(0).operation, 0u);
  EXPECT_EQ(laboratory.Report(),
            "operations of rank 0: 1\noperations of rank 1: 2\n"
            "live works: 0\nlive communicators: 0\nduplicates dropped: 0\n");
}

TEST(LaboratoryTest, AFaultHappensToItsRankAtItsOperationAlone) {
  Laboratory laboratory(
      Plan("late rank=1 at=1 ns=7; memory rank=1 at=1; abort rank=1 at=1; "
           "die rank=1 before=1; die rank=1 after=1; short rank=1 at=1"),
      /*checks=*/false);
  for (const int32_t rank : {0, 1, 0}) {
    const Fate fate = laboratory.NextOperation(rank);
    EXPECT_EQ(fate.late_ns, 0);
    EXPECT_FALSE(fate.no_memory || fate.aborts || fate.dies_before ||
                 fate.dies_after);
    EXPECT_EQ(fate.message, Fate::Message::kWhole);
  }
  EXPECT_THAT(laboratory.Report(),
              HasSubstr("fault \"memory rank=1 at=1\": not reached\n"));
  const Fate fate = laboratory.NextOperation(1);
  EXPECT_EQ(fate.late_ns, 7);
  EXPECT_TRUE(fate.no_memory && fate.aborts && fate.dies_before &&
              fate.dies_after);
  EXPECT_EQ(fate.message, Fate::Message::kShort);
  EXPECT_THAT(laboratory.Report(),
              HasSubstr("fault \"memory rank=1 at=1\": reached\n"));
}

TEST(LaboratoryTest, EachDamageIsThatOfItsKind) {
  Laboratory laboratory(Plan("lose rank=0 at=0; short rank=0 at=1; "
                             "corrupt rank=0 at=2; duplicate rank=0 at=3"),
                        /*checks=*/false);
  for (const Fate::Message damage :
       {Fate::Message::kLost, Fate::Message::kShort, Fate::Message::kCorrupt,
        Fate::Message::kTwice, Fate::Message::kWhole}) {
    EXPECT_EQ(laboratory.NextOperation(0).message, damage);
  }
}

TEST(LaboratoryTest, MessagesAreMadeWhereSomethingDependsOnThem) {
  EXPECT_FALSE(Laboratory({}, false).makes_messages());
  EXPECT_FALSE(Laboratory(Plan("die rank=0 after=1"), false).makes_messages());
  EXPECT_TRUE(Laboratory(Plan("lose rank=0 at=1"), false).makes_messages());
  EXPECT_TRUE(Laboratory({}, true).makes_messages());
}

TEST(LaboratoryTest, ARankThatTheWorldLacksIsRefused) {
  const Laboratory laboratory(Plan("die rank=0 after=1; lose rank=3 at=1"),
                              false);
  EXPECT_TRUE(laboratory.CheckRanks(4).ok());
  const Outcome refused = laboratory.CheckRanks(3);
  EXPECT_EQ(refused.code, MUONSHARD_E_ARGUMENT);
  EXPECT_THAT(refused.text, HasSubstr("\"lose rank=3 at=1\": want a rank in "
                                      "[0, 3), got 3"));
}

TEST(LaboratoryTest, ARankDiesOnceAndOfItsFirstCause) {
  Laboratory laboratory({}, false);
  EXPECT_EQ(laboratory.DeathOf(2), nullptr);
  laboratory.Die(2, {.code = MUONSHARD_E_ABORTED, .text = "first"});
  laboratory.Die(2, {.code = MUONSHARD_E_ABORTED, .text = "second"});
  ASSERT_NE(laboratory.DeathOf(2), nullptr);
  EXPECT_EQ(laboratory.DeathOf(2)->text, "first");
  EXPECT_EQ(laboratory.DeathOf(1), nullptr);
}

TEST(LaboratoryTest, TheCommunicatorsOfARankAreThoseThatHaveNotLeft) {
  Laboratory laboratory({}, false);
  int objects[3] = {};
  Communicator* communicators[3];
  for (int i = 0; i < 3; ++i) {
    // Never looked into.
    communicators[i] = reinterpret_cast<Communicator*>(&objects[i]);
  }
  laboratory.Enter(1, communicators[0]);
  laboratory.Enter(1, communicators[1]);
  laboratory.Enter(2, communicators[2]);
  EXPECT_THAT(laboratory.CommunicatorsOf(1),
              ElementsAre(communicators[0], communicators[1]));
  laboratory.Leave(1, communicators[0]);
  EXPECT_THAT(laboratory.CommunicatorsOf(1), ElementsAre(communicators[1]));
  EXPECT_THAT(laboratory.CommunicatorsOf(0), IsEmpty());
}

TEST(LaboratoryTest, WhatLivesIsReported) {
  Laboratory laboratory({}, false);
  laboratory.WorkMade();
  laboratory.WorkMade();
  laboratory.WorkGone();
  laboratory.CommunicatorMade();
  laboratory.DuplicateDropped();
  EXPECT_EQ(laboratory.Report(),
            "live works: 1\nlive communicators: 1\nduplicates dropped: 1\n");
  laboratory.CommunicatorGone();
  EXPECT_THAT(laboratory.Report(), HasSubstr("live communicators: 0\n"));
}

}  // namespace
}  // namespace muonshard::loopback
