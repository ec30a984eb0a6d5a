// What CheckOperation lets through and what it refuses, with which words.

#include "collectives/check_operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

using Kind = OperationKind;

// Of rank 1 of 3, over a buffer of 12 floats.
class CheckOperationTest : public ::testing::Test {
 protected:
  static constexpr Rank kRank{1};
  static constexpr int32_t kSize = 3;

  CheckOperationTest() {
    capabilities_.operations = capabilities_.data_types =
        capabilities_.reductions = ~uint64_t{0};
  }

  ConstBuffer In(int64_t begin, int64_t count) {
    return {memory_.data() + begin, count, DataType::kF32};
  }
  MutableBuffer Out(int64_t begin, int64_t count) {
    return {memory_.data() + begin, count, DataType::kF32};
  }
  Operation Of(Kind kind, ConstBuffer in, MutableBuffer out) {
    return {.kind = kind, .data_type = DataType::kF32, .in = in, .out = out};
  }
  // Segments of 1, 2 and 3 elements; the own one is [1, 3).
  Operation ReduceScatter(ConstBuffer in, MutableBuffer out) {
    Operation operation = Of(Kind::kReduceScatterV, in, out);
    operation.in_counts = {1, 2, 3};
    return operation;
  }
  Operation AllGather(ConstBuffer in, MutableBuffer out) {
    Operation operation = Of(Kind::kAllGatherV, in, out);
    operation.out_counts = {1, 2, 3};
    return operation;
  }
  Operation AllToAll(std::vector<int64_t> in_counts,
                     std::vector<int64_t> out_counts) {
    Operation operation = Of(Kind::kAllToAllV, In(0, 6), Out(6, 6));
    operation.in_counts = std::move(in_counts);
    operation.out_counts = std::move(out_counts);
    return operation;
  }

  absl::Status Check(const Operation& operation) {
    return CheckOperation(operation, kRank, kSize, capabilities_);
  }
  void ExpectRefused(const Operation& operation, const std::string& text) {
    EXPECT_THAT(Check(operation),
                StatusIs(absl::StatusCode::kInvalidArgument, text));
  }

  Capabilities capabilities_;
  std::array<float, 12> memory_ = {};
};

TEST_F(CheckOperationTest, OrdinaryCallsPass) {
  EXPECT_THAT(Check(Of(Kind::kAllReduce, In(0, 6), Out(6, 6))), IsOk());
  EXPECT_THAT(Check(Of(Kind::kAllReduce, In(0, 0), Out(0, 0))), IsOk());
  EXPECT_THAT(Check(Of(Kind::kReduce, In(0, 6), Out(0, 0))), IsOk());
  EXPECT_THAT(Check(Of(Kind::kBroadcast, In(0, 0), Out(0, 6))), IsOk());
  EXPECT_THAT(Check(ReduceScatter(In(0, 6), Out(6, 2))), IsOk());
  EXPECT_THAT(Check(AllGather(In(6, 2), Out(0, 6))), IsOk());
  EXPECT_THAT(Check(AllToAll({1, 2, 3}, {0, 2, 4})), IsOk());
  EXPECT_THAT(Check(Of(Kind::kSend, In(0, 6), {})), IsOk());
  EXPECT_THAT(Check(Of(Kind::kRecv, {}, Out(0, 6))), IsOk());
  EXPECT_THAT(Check(Of(Kind::kBarrier, {}, {})), IsOk());
}

TEST_F(CheckOperationTest, ErrorsNameCallLabelAndRank) {
  Operation operation = Of(Kind::kAllReduce, In(0, 5), Out(6, 6));
  operation.options.label = "control vector";
  EXPECT_EQ(
      Check(operation).message(),
      "AllReduce \"control vector\" on rank 1 of 3: `out` has 6 elements, "
      "want 5");
}

TEST_F(CheckOperationTest, ValuesThatAreNoneAreRefused) {
  Operation operation = Of(Kind{9}, {}, {});
  ExpectRefused(operation, "kind: 9");
  operation = Of(Kind::kAllReduce, In(0, 1), Out(1, 1));
  operation.data_type = DataType{0};
  ExpectRefused(operation, "data type: 0");
  for (const uint32_t kind : {0, 6}) {
    operation = Of(Kind::kAllReduce, In(0, 1), Out(1, 1));
    operation.reduction.kind = ReductionKind{kind};
    ExpectRefused(operation, "reduction: " + std::to_string(kind));
  }
}

TEST_F(CheckOperationTest, RootsAndPeersAreRanksOfTheGroup) {
  for (const int32_t rank : {-1, 3}) {
    Operation operation = Of(Kind::kReduce, In(0, 1), {});
    operation.root = Rank{rank};
    ExpectRefused(operation, "root");
    operation = Of(Kind::kSend, In(0, 1), {});
    operation.peer = Rank{rank};
    ExpectRefused(operation, "peer");
  }
  Operation to_itself = Of(Kind::kRecv, {}, Out(0, 1));
  to_itself.peer = kRank;
  ExpectRefused(to_itself, "other than itself");
}

TEST_F(CheckOperationTest, ScaledReductionsWantFloatingTypesAndAFiniteScale) {
  for (const Reduction& reduction :
       {Reduction::Average(), Reduction::ScaledSum(0.5)}) {
    for (const DataType type :
         {DataType::kI32, DataType::kI64, DataType::kU8}) {
      Operation operation = Of(Kind::kAllReduce, {}, {});
      operation.data_type = type;
      operation.reduction = reduction;
      ExpectRefused(operation, "floating type");
    }
  }
  Operation operation = Of(Kind::kAllReduce, In(0, 1), Out(1, 1));
  operation.reduction =
      Reduction::ScaledSum(std::numeric_limits<double>::infinity());
  ExpectRefused(operation, "finite");
  operation.reduction = Reduction::ScaledSum(0.5);
  EXPECT_THAT(Check(operation), IsOk());
}

TEST_F(CheckOperationTest, BuffersHaveMemoryATypeAndASize) {
  ExpectRefused(Of(Kind::kAllReduce, {nullptr, 1, DataType::kF32}, Out(0, 1)),
                "`in` has 1 elements and no memory");
  ExpectRefused(Of(Kind::kAllReduce, In(0, 1), {nullptr, 1, DataType::kF32}),
                "`out` has 1 elements and no memory");
  ExpectRefused(Of(Kind::kAllReduce, In(0, -1), Out(0, -1)), "-1 elements");
  const int64_t huge = std::numeric_limits<int64_t>::max();
  ExpectRefused(Of(Kind::kAllReduce, In(0, huge), Out(0, huge)), "elements");
  MutableBuffer bytes = Out(6, 6);
  bytes.type = DataType::kU8;
  ExpectRefused(Of(Kind::kAllReduce, In(0, 6), bytes), "is u8, want f32");
  // The type of no elements is not looked at.
  bytes.count = 0;
  EXPECT_THAT(Check(Of(Kind::kAllReduce, In(0, 0), bytes)), IsOk());
}

TEST_F(CheckOperationTest, CountsFitTheKindAndTheRank) {
  ExpectRefused(Of(Kind::kAllReduce, In(0, 5), Out(6, 6)), "want 5");
  ExpectRefused(Of(Kind::kReduce, In(0, 6), Out(6, 6)), "want 0");
  ExpectRefused(Of(Kind::kBroadcast, In(0, 6), Out(6, 6)), "want 0");
  Operation on_root = Of(Kind::kReduce, In(0, 6), {});
  on_root.root = kRank;
  ExpectRefused(on_root, "want 6");
  on_root = Of(Kind::kBroadcast, {}, Out(0, 6));
  on_root.root = kRank;
  ExpectRefused(on_root, "want 6");
  ExpectRefused(ReduceScatter(In(0, 5), Out(6, 2)), "want 6");
  ExpectRefused(ReduceScatter(In(0, 6), Out(6, 3)), "want 2");
  ExpectRefused(AllGather(In(6, 3), Out(0, 6)), "want 2");
  ExpectRefused(AllGather(In(6, 2), Out(0, 5)), "want 6");
  ExpectRefused(AllToAll({1, 2, 2}, {0, 2, 4}), "want 5");
  ExpectRefused(AllToAll({1, 2, 3}, {0, 2, 3}), "want 5");
  ExpectRefused(AllToAll({1, 2, 3}, {2, 1, 3}), "to itself");
  ExpectRefused(Of(Kind::kSend, In(0, 1), Out(1, 1)), "want 0");
  ExpectRefused(Of(Kind::kRecv, In(0, 1), Out(1, 1)), "want 0");
  ExpectRefused(Of(Kind::kBarrier, In(0, 1), {}), "want 0");
  ExpectRefused(Of(Kind::kBarrier, {}, Out(0, 1)), "want 0");
}

TEST_F(CheckOperationTest, ListsHaveOneEntryPerRankAndOnlyWhereTheKindHasThem) {
  Operation operation = ReduceScatter(In(0, 6), Out(6, 2));
  operation.in_counts = {4, 2};
  ExpectRefused(operation, "want 3 entries of in_counts, got 2");
  operation = ReduceScatter(In(0, 6), Out(6, 2));
  operation.out_counts = {1, 2, 3};
  ExpectRefused(operation, "want 0 entries of out_counts, got 3");
  operation = Of(Kind::kBarrier, {}, {});
  operation.in_displacements = {0, 0, 0};
  ExpectRefused(operation, "want 0 entries of in_displacements");
  operation = AllGather(In(6, 2), Out(0, 6));
  operation.out_displacements = {0};
  ExpectRefused(operation, "want 3 entries of out_displacements");
}

TEST_F(CheckOperationTest, SegmentsAreNotNegativeAndTheirSumFits) {
  ExpectRefused(AllToAll({7, 2, -3}, {0, 2, 4}), "segment 2 of `in` has -3");
  const int64_t half = std::numeric_limits<int64_t>::max() / 2;
  ExpectRefused(AllToAll({1, 2, 3}, {half, 2, half}), "segment 0 of `out`");
}

TEST_F(CheckOperationTest, DisplacedSegmentsLieInTheirBuffer) {
  Operation operation = AllToAll({1, 2, 3}, {0, 2, 1});
  operation.in_displacements = {5, 3, 0};
  operation.out_displacements = {6, 4, 0};
  EXPECT_THAT(Check(operation), IsOk());
  // What is read may overlap.
  operation.in_displacements = {0, 0, 0};
  EXPECT_THAT(Check(operation), IsOk());
  operation.out_displacements = {0, 4, 5};
  ExpectRefused(operation, "segments 1 and 2 of `out` overlap");
  operation.out_displacements = {0, 5, 0};
  ExpectRefused(operation, "segment 1 of `out` has 2 elements from 5");
  operation.out_displacements = {0, -1, 3};
  ExpectRefused(operation, "from -1");
  operation.out_displacements = {7, 0, 3};
  ExpectRefused(operation, "from 7");
}

TEST_F(CheckOperationTest, InPlaceIsAllowedExactlyWhereItIsPromised) {
  EXPECT_THAT(Check(Of(Kind::kAllReduce, In(0, 6), Out(0, 6))), IsOk());
  for (const Kind kind : {Kind::kReduce, Kind::kBroadcast}) {
    Operation operation = Of(kind, In(0, 6), Out(0, 6));
    operation.root = kRank;
    EXPECT_THAT(Check(operation), IsOk());
    operation.out = Out(3, 6);
    ExpectRefused(operation, "overlap");
  }
  ExpectRefused(Of(Kind::kAllReduce, In(0, 6), Out(1, 6)), "overlap");
  EXPECT_THAT(Check(ReduceScatter(In(0, 6), Out(1, 2))), IsOk());
  ExpectRefused(ReduceScatter(In(0, 6), Out(0, 2)), "overlap");
  ExpectRefused(ReduceScatter(In(0, 6), Out(2, 2)), "overlap");
  EXPECT_THAT(Check(AllGather(In(1, 2), Out(0, 6))), IsOk());
  ExpectRefused(AllGather(In(0, 2), Out(0, 6)), "overlap");
  Operation displaced = ReduceScatter(In(0, 6), Out(4, 2));
  displaced.in_displacements = {0, 4, 1};
  EXPECT_THAT(Check(displaced), IsOk());
  Operation exchange = AllToAll({1, 2, 3}, {0, 2, 4});
  exchange.out = Out(0, 6);
  ExpectRefused(exchange, "overlap");
  exchange.out = Out(5, 6);
  ExpectRefused(exchange, "overlap");
}

TEST_F(CheckOperationTest, WhatThePluginDoesNotPromiseIsUnimplemented) {
  const Operation sum = Of(Kind::kAllReduce, In(0, 6), Out(6, 6));
  const Operation barrier = Of(Kind::kBarrier, {}, {});
  capabilities_.operations = uint64_t{1}
                             << static_cast<uint32_t>(Kind::kBarrier);
  EXPECT_THAT(Check(sum),
              StatusIs(absl::StatusCode::kUnimplemented, "operation"));
  EXPECT_THAT(Check(barrier), IsOk());
  capabilities_.operations = ~uint64_t{0};
  capabilities_.data_types = 0;
  EXPECT_THAT(Check(sum), StatusIs(absl::StatusCode::kUnimplemented, "f32"));
  EXPECT_THAT(Check(barrier), IsOk());
  capabilities_.data_types = ~uint64_t{0};
  capabilities_.reductions = 0;
  EXPECT_THAT(Check(sum),
              StatusIs(absl::StatusCode::kUnimplemented, "reduction"));
  EXPECT_THAT(Check(Of(Kind::kSend, In(0, 1), {})), IsOk());
}

}  // namespace
}  // namespace muonshard
