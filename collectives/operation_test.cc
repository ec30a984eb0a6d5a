#include "collectives/operation.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "collectives/plugin_abi.h"

namespace muonshard {
namespace {

TEST(OperationTest, KindsHaveTheValuesOfTheAbiAndNamesOfTheirOwn) {
  static_assert(kOperationKindCount == MUONSHARD_OPERATION_KINDS);
  static_assert(static_cast<int>(OperationKind::kAllReduce) ==
                MUONSHARD_ALL_REDUCE);
  static_assert(static_cast<int>(OperationKind::kAllToAllV) ==
                MUONSHARD_ALL_TO_ALL_V);
  static_assert(static_cast<int>(OperationKind::kBarrier) == MUONSHARD_BARRIER);
  std::set<std::string> names;
  for (uint32_t kind = 0; kind < kOperationKindCount; ++kind) {
    names.insert(std::string(OperationKindName(OperationKind{kind})));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kOperationKindCount));
  EXPECT_EQ(names.count("unknown operation"), 0);
  EXPECT_EQ(OperationKindName(OperationKind{kOperationKindCount}),
            "unknown operation");
}

TEST(OperationTest, TypesAndReductionsHaveTheValuesOfTheAbi) {
  static_assert(static_cast<int>(DataType::kBF16) == MUONSHARD_BF16);
  static_assert(static_cast<int>(DataType::kF16) == MUONSHARD_F16);
  static_assert(static_cast<int>(DataType::kF32) == MUONSHARD_F32);
  static_assert(static_cast<int>(DataType::kF64) == MUONSHARD_F64);
  static_assert(static_cast<int>(DataType::kI32) == MUONSHARD_I32);
  static_assert(static_cast<int>(DataType::kI64) == MUONSHARD_I64);
  static_assert(static_cast<int>(DataType::kU8) == MUONSHARD_U8);
  static_assert(static_cast<int>(ReductionKind::kSum) == MUONSHARD_SUM);
  static_assert(static_cast<int>(ReductionKind::kScaledSum) ==
                MUONSHARD_SCALED_SUM);
  std::set<std::string> names;
  for (uint32_t type = MUONSHARD_BF16; type <= MUONSHARD_U8; ++type) {
    names.insert(std::string(DataTypeName(DataType{type})));
    EXPECT_GT(ByteWidth(DataType{type}), 0);
  }
  EXPECT_EQ(names.size(), 7);
  EXPECT_EQ(DataTypeName(DataType{0}), "unknown");
  EXPECT_EQ(ByteWidth(DataType{0}), 0);
}

TEST(OperationTest, OnlyReductionsReduce) {
  int reductions = 0;
  for (uint32_t kind = 0; kind < kOperationKindCount; ++kind) {
    reductions += Reduces(OperationKind{kind}) ? 1 : 0;
  }
  EXPECT_EQ(reductions, 3);
}

TEST(OperationTest, ReportsNameACallByKindAndLabel) {
  Operation operation{.kind = OperationKind::kReduceScatterV};
  EXPECT_EQ(DescribeOperation(operation), "ReduceScatterV");
  operation.options.label = "bucket 3";
  EXPECT_EQ(DescribeOperation(operation), "ReduceScatterV \"bucket 3\"");
}

}  // namespace
}  // namespace muonshard
