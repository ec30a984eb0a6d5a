// Which operations a hierarchy posts to which level. What they add up to is
// shown by hierarchical_collective_ranks_test.

#include "collectives/level_operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace muonshard {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Kind = OperationKind;

constexpr HostAndLane kPlace = {.hosts = 2, .lanes = 3, .host = 1, .lane = 2};

class LevelOperationsTest : public ::testing::Test {
 protected:
  ConstBuffer In(int64_t begin, int64_t count) {
    return {&in_[static_cast<size_t>(begin)], count, DataType::kF32};
  }
  MutableBuffer Out(int64_t begin, int64_t count) {
    return {&out_[static_cast<size_t>(begin)], count, DataType::kF32};
  }
  Operation Scatter() {
    return {.kind = Kind::kReduceScatterV,
            .data_type = DataType::kF32,
            .in = In(0, 21),
            .out = Out(0, 6),
            .in_counts = {1, 2, 3, 4, 5, 6},
            .options = {.label = "bucket", .fingerprint = 9}};
  }
  // The reductions of host level and lane level.
  static std::array<Reduction, 2> ReductionsOf(DataType type,
                                               const Reduction& reduction) {
    std::array<uint64_t, 2> elements = {};
    const Operation all = {.kind = Kind::kAllReduce,
                           .data_type = type,
                           .reduction = reduction,
                           .in = {&elements[0], 1, type},
                           .out = {&elements[1], 1, type}};
    const HierarchicalOperation levels = ToLevels(all, kPlace);
    return {levels.sequence[0].operations.front().reduction,
            levels.sequence[1].operations.front().reduction};
  }

  std::array<float, 64> in_ = {};
  std::array<float, 64> out_ = {};
};

MATCHER_P(IsReduction, want, "") {
  return arg.kind == want.kind && arg.scale == want.scale;
}

TEST_F(LevelOperationsTest, AReduceScatterIsOneForEachHostAndOneForTheLane) {
  const HierarchicalOperation levels = ToLevels(Scatter(), kPlace);
  ASSERT_EQ(levels.sequence.size(), 2);
  EXPECT_EQ(levels.sequence[0].level, HierarchyLevel::kHost);
  const std::vector<Operation>& hosts = levels.sequence[0].operations;
  ASSERT_EQ(hosts.size(), 2);
  EXPECT_EQ(hosts[0].in.data, &in_[0]);
  EXPECT_THAT(hosts[0].in_counts, ElementsAre(1, 2, 3));
  EXPECT_EQ(hosts[1].in.data, &in_[6]);
  EXPECT_THAT(hosts[1].in_counts, ElementsAre(4, 5, 6));
  EXPECT_EQ(levels.sequence[1].level, HierarchyLevel::kLane);
  const Operation& lane = levels.sequence[1].operations.front();
  EXPECT_THAT(lane.in_counts, ElementsAre(3, 6));
  EXPECT_EQ(lane.out.data, &out_[0]);
  // The first level leaves what the second takes.
  EXPECT_EQ(lane.in.data, levels.scratch.get());
  EXPECT_EQ(lane.in.count, 9);
  EXPECT_EQ(hosts[0].out.data, lane.in.data);
  EXPECT_EQ(hosts[1].out.data, static_cast<const float*>(lane.in.data) + 3);
}

TEST_F(LevelOperationsTest, HostsThatGetNothingAreLeftOut) {
  Operation scatter = Scatter();
  scatter.in = In(0, 15);
  scatter.in_counts = {0, 0, 0, 4, 5, 6};
  const HierarchicalOperation levels = ToLevels(scatter, kPlace);
  ASSERT_EQ(levels.sequence[0].operations.size(), 1);
  EXPECT_THAT(levels.sequence[0].operations.front().in_counts,
              ElementsAre(4, 5, 6));
  EXPECT_THAT(levels.sequence[1].operations.front().in_counts,
              ElementsAre(0, 6));

  scatter.in = In(0, 0);
  scatter.out = Out(0, 0);
  scatter.in_counts.assign(6, 0);
  const HierarchicalOperation nothing = ToLevels(scatter, kPlace);
  EXPECT_THAT(nothing.sequence[0].operations, IsEmpty());
  EXPECT_EQ(nothing.sequence[1].operations.size(), 1);
}

TEST_F(LevelOperationsTest, HostsThatGiveNothingAreLeftOutOfAGather) {
  const Operation gather = {.kind = Kind::kAllGatherV,
                            .data_type = DataType::kF32,
                            .in = In(0, 6),
                            .out = Out(0, 15),
                            .out_counts = {0, 0, 0, 4, 5, 6}};
  const HierarchicalOperation levels = ToLevels(gather, kPlace);
  EXPECT_THAT(levels.sequence[0].operations.front().out_counts,
              ElementsAre(0, 6));
  ASSERT_EQ(levels.sequence[1].operations.size(), 1);
  EXPECT_THAT(levels.sequence[1].operations.front().out_counts,
              ElementsAre(4, 5, 6));
}

// Segments in another order than the ranks, with gaps between them.
TEST_F(LevelOperationsTest, DisplacedSegmentsKeepTheirPlaces) {
  Operation gather = {.kind = Kind::kAllGatherV,
                      .data_type = DataType::kF32,
                      .in = In(0, 2),
                      .out = Out(0, 40),
                      .out_counts = {2, 0, 2, 2, 2, 2},
                      .out_displacements = {30, 0, 20, 9, 6, 3}};
  const HierarchicalOperation levels = ToLevels(gather, kPlace);
  ASSERT_EQ(levels.sequence.size(), 2);
  const Operation& lane = levels.sequence[0].operations.front();
  EXPECT_EQ(lane.in.data, &in_[0]);
  EXPECT_EQ(lane.out.data, &out_[3]);
  EXPECT_EQ(lane.out.count, 19);
  EXPECT_THAT(lane.out_counts, ElementsAre(2, 2));
  EXPECT_THAT(lane.out_displacements, ElementsAre(17, 0));
  const std::vector<Operation>& hosts = levels.sequence[1].operations;
  ASSERT_EQ(hosts.size(), 2);
  EXPECT_EQ(hosts[0].in.data, &out_[20]);
  EXPECT_EQ(hosts[0].out.data, &out_[20]);
  EXPECT_THAT(hosts[0].out_counts, ElementsAre(2, 0, 2));
  EXPECT_THAT(hosts[0].out_displacements, ElementsAre(10, 0, 0));
  EXPECT_EQ(hosts[1].in.data, &out_[3]);
  EXPECT_THAT(hosts[1].out_displacements, ElementsAre(6, 3, 0));
}

TEST_F(LevelOperationsTest, AnAllReduceWorksInItsOutputAlone) {
  const Operation all = {.kind = Kind::kAllReduce,
                         .data_type = DataType::kF32,
                         .in = In(0, 8),
                         .out = Out(0, 8)};
  const HierarchicalOperation levels = ToLevels(all, kPlace);
  EXPECT_EQ(levels.scratch, nullptr);
  ASSERT_EQ(levels.sequence.size(), 3);
  const Operation& scatter = levels.sequence[0].operations.front();
  EXPECT_THAT(scatter.in_counts, ElementsAre(3, 3, 2));
  EXPECT_EQ(scatter.out.data, &out_[6]);
  const Operation& lane = levels.sequence[1].operations.front();
  EXPECT_EQ(lane.in.data, &out_[6]);
  EXPECT_EQ(lane.out.data, &out_[6]);
  EXPECT_EQ(lane.out.count, 2);
  const Operation& gather = levels.sequence[2].operations.front();
  EXPECT_EQ(gather.in.data, &out_[6]);
  EXPECT_EQ(gather.out.data, &out_[0]);
  EXPECT_THAT(gather.out_counts, ElementsAre(3, 3, 2));
}

// Rank 2 is lane 2 of host 0.
TEST_F(LevelOperationsTest, ABroadcastGoesDownTheLaneOfItsRoot) {
  Operation broadcast = {.kind = Kind::kBroadcast,
                         .data_type = DataType::kF32,
                         .root = Rank{2},
                         .out = Out(0, 8)};
  for (const int32_t lane : {1, 2}) {
    HostAndLane place = kPlace;
    place.lane = lane;
    const HierarchicalOperation levels = ToLevels(broadcast, place);
    ASSERT_EQ(levels.sequence.size(), 2);
    EXPECT_EQ(levels.sequence[0].level, HierarchyLevel::kLane);
    const Operation& across = levels.sequence[0].operations.front();
    EXPECT_EQ(across.root, Rank{0});
    EXPECT_EQ(across.out.count, lane == 2 ? 8 : 0);
    const Operation& within = levels.sequence[1].operations.front();
    EXPECT_EQ(within.root, Rank{2});
    EXPECT_EQ(within.in.count, lane == 2 ? 8 : 0);
    EXPECT_EQ(within.out.count, 8);
  }
}

TEST_F(LevelOperationsTest, EveryPartHasTheNameAndTheDeadlineOfItsCall) {
  Operation scatter = Scatter();
  scatter.options.deadline = absl::UnixEpoch();
  for (const LevelOperations& part : ToLevels(scatter, kPlace).sequence) {
    for (const Operation& operation : part.operations) {
      EXPECT_EQ(operation.options.label, "bucket");
      EXPECT_EQ(operation.options.fingerprint, 9);
      EXPECT_EQ(operation.options.deadline, absl::UnixEpoch());
    }
  }
}

TEST_F(LevelOperationsTest, AScaleIsAppliedOnceByTheLastLevel) {
  for (const DataType type : {DataType::kF32, DataType::kF64}) {
    EXPECT_THAT(ReductionsOf(type, Reduction::ScaledSum(0.3)),
                ElementsAre(IsReduction(Reduction::Sum()),
                            IsReduction(Reduction::ScaledSum(0.3))));
    EXPECT_THAT(ReductionsOf(type, Reduction::Average()),
                ElementsAre(IsReduction(Reduction::Sum()),
                            IsReduction(Reduction::ScaledSum(1.0 / 6))));
  }
}

TEST_F(LevelOperationsTest, In16BitsTheHostLevelDividesByItsLanes) {
  for (const DataType type : {DataType::kF16, DataType::kBF16}) {
    EXPECT_THAT(ReductionsOf(type, Reduction::ScaledSum(0.25)),
                ElementsAre(IsReduction(Reduction::ScaledSum(1.0 / 3)),
                            IsReduction(Reduction::ScaledSum(0.75))));
    EXPECT_THAT(ReductionsOf(type, Reduction::Average()),
                ElementsAre(IsReduction(Reduction::ScaledSum(1.0 / 3)),
                            IsReduction(Reduction::ScaledSum(0.5))));
  }
}

TEST_F(LevelOperationsTest, WhatHasNoScaleGetsNone) {
  for (const Reduction& reduction :
       {Reduction::Sum(), Reduction::Min(), Reduction::Max()}) {
    for (const DataType type : {DataType::kF16, DataType::kI32}) {
      EXPECT_THAT(ReductionsOf(type, reduction),
                  ElementsAre(IsReduction(reduction), IsReduction(reduction)));
    }
  }
}

// A group that promises everything.
Capabilities Everything() {
  return {.operations = ~uint64_t{0},
          .data_types = ~uint64_t{0},
          .reductions = ~uint64_t{0},
          .canonical = true,
          .repeatable = true,
          .mismatch_detected = true,
          .deadlock_detected = true,
          .split = true,
          .window = true,
          .exact_counters = true};
}

bool Promises(uint64_t bits, auto value) {
  return (bits >> static_cast<uint32_t>(value) & 1) != 0;
}

TEST_F(LevelOperationsTest, APromiseThatOneLevelLacksTheHierarchyLacks) {
  const Capabilities all =
      CapabilitiesOfLevels(Everything(), Everything(), Everything());
  EXPECT_EQ(all.operations, ~uint64_t{0});
  EXPECT_EQ(all.data_types, ~uint64_t{0});
  EXPECT_EQ(all.reductions, ~uint64_t{0});
  for (bool Capabilities::*promise :
       {&Capabilities::canonical, &Capabilities::repeatable,
        &Capabilities::split, &Capabilities::window,
        &Capabilities::exact_counters}) {
    EXPECT_TRUE(all.*promise);
    Capabilities fewer = Everything();
    fewer.*promise = false;
    EXPECT_FALSE(CapabilitiesOfLevels(fewer, Everything(), Everything()).*
                 promise);
    EXPECT_FALSE(CapabilitiesOfLevels(Everything(), fewer, Everything()).*
                 promise);
    EXPECT_FALSE(CapabilitiesOfLevels(Everything(), Everything(), fewer).*
                 promise);
  }
  // What ranks that meet on no level cannot be promised.
  EXPECT_FALSE(all.mismatch_detected);
  EXPECT_FALSE(all.deadlock_detected);
}

TEST_F(LevelOperationsTest, AnAllReduceTakesWhatItIsMadeOf) {
  for (const Kind kind : {Kind::kReduceScatterV, Kind::kAllGatherV}) {
    Capabilities host = Everything();
    host.operations &= ~(uint64_t{1} << static_cast<uint32_t>(kind));
    const Capabilities shared =
        CapabilitiesOfLevels(Everything(), host, Everything());
    EXPECT_FALSE(Promises(shared.operations, kind));
    EXPECT_FALSE(Promises(shared.operations, Kind::kAllReduce));
    EXPECT_TRUE(Promises(shared.operations, Kind::kBroadcast));
  }
}

TEST_F(LevelOperationsTest, AnAverageTakesAScale) {
  Capabilities lane = Everything();
  lane.reductions &=
      ~(uint64_t{1} << static_cast<uint32_t>(ReductionKind::kScaledSum));
  const Capabilities shared =
      CapabilitiesOfLevels(Everything(), Everything(), lane);
  EXPECT_FALSE(Promises(shared.reductions, ReductionKind::kAverage));
  EXPECT_TRUE(Promises(shared.reductions, ReductionKind::kSum));
}

TEST_F(LevelOperationsTest, TheRestDoesNotGoThroughTheLevels) {
  for (const Kind kind : {Kind::kReduce, Kind::kAllToAllV, Kind::kSend,
                          Kind::kRecv, Kind::kBarrier}) {
    EXPECT_FALSE(GoesThroughLevels(kind));
    EXPECT_THAT(ToLevels({.kind = kind}, kPlace).sequence, IsEmpty());
  }
}

}  // namespace
}  // namespace muonshard
