#include "optimizer/block_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "testing/status_matchers.h"
#include "topology/mesh.h"

namespace muonshard {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::IsOk;
using ::testing::SizeIs;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

AttentionProjection GroupedQuery() {
  return {.query_heads = 6, .key_heads = 2, .head_size = 4};
}

// The blocks of a matrix [size, 5] or [5, size] that is otherwise valid.
absl::Status CheckInSpec(const Blocks& blocks, int64_t size) {
  ParameterSpec spec;
  spec.name = "w";
  spec.rule = Rule::kMuon;
  spec.shape = {5, 5};
  spec.shape[static_cast<size_t>(blocks.dimension)] = size;
  spec.blocks = blocks;
  return Validate(spec, *Mesh::Parse("data=2"));
}

TEST(BlockLayoutTest, QueriesKeysAndValuesAreOneBlockEach) {
  const auto blocks = QkvBlocks(GroupedQuery(), AttentionBlocks::kByProjection,
                                {.dimension = 0, .size = 40});
  ASSERT_THAT(blocks, IsOk());
  EXPECT_EQ(blocks->dimension, 0);
  EXPECT_EQ(blocks->padding, 0);
  EXPECT_THAT(blocks->sizes, ElementsAre(24, 8, 8));
  EXPECT_THAT(CheckInSpec(*blocks, 40), IsOk());
}

TEST(BlockLayoutTest, AGateLiesBehindTheQueries) {
  AttentionProjection projection = GroupedQuery();
  projection.gated = true;
  const auto blocks = QkvBlocks(projection, AttentionBlocks::kByProjection,
                                {.dimension = 1, .size = 70, .padding = 6});
  ASSERT_THAT(blocks, IsOk());
  EXPECT_EQ(blocks->dimension, 1);
  EXPECT_EQ(blocks->padding, 6);
  EXPECT_THAT(blocks->sizes, ElementsAre(24, 24, 8, 8));
  EXPECT_THAT(CheckInSpec(*blocks, 70), IsOk());
}

TEST(BlockLayoutTest, EachHeadIsABlockInAnyOrderOfHeads) {
  AttentionProjection projection = GroupedQuery();
  for (const bool grouped : {false, true}) {
    projection.grouped = grouped;
    projection.gated = false;
    const auto plain = QkvBlocks(projection, AttentionBlocks::kByHead,
                                 {.dimension = 0, .size = 40});
    ASSERT_THAT(plain, IsOk());
    EXPECT_THAT(plain->sizes, SizeIs(10));
    EXPECT_THAT(plain->sizes, Each(4));
    projection.gated = true;
    const auto gated = QkvBlocks(projection, AttentionBlocks::kByHead,
                                 {.dimension = 0, .size = 65, .padding = 1});
    ASSERT_THAT(gated, IsOk());
    EXPECT_THAT(gated->sizes, SizeIs(16));
    EXPECT_THAT(gated->sizes, Each(4));
    EXPECT_THAT(CheckInSpec(*gated, 65), IsOk());
  }
}

TEST(BlockLayoutTest, AGroupedProjectionIsCutByHeadOnly) {
  AttentionProjection projection = GroupedQuery();
  projection.grouped = true;
  EXPECT_THAT(
      QkvBlocks(projection, AttentionBlocks::kByProjection, {.size = 40}),
      StatusIs(kInvalid,
               "blocks of queries, keys and values: want a grouped projection "
               "to be cut by head"));
}

TEST(BlockLayoutTest, AProjectionFillsTheDimension) {
  EXPECT_THAT(
      QkvBlocks(GroupedQuery(), AttentionBlocks::kByHead,
                {.dimension = 1, .size = 48, .padding = 4}),
      StatusIs(kInvalid,
               "blocks of queries, keys and values: want a size of dimension 1 "
               "of 44 = 10 heads of 4 and the padding, got 48 with a padding "
               "of 4"));
}

TEST(BlockLayoutTest, CountsOfHeadsAreChecked) {
  AttentionProjection projection = GroupedQuery();
  projection.query_heads = 5;
  EXPECT_THAT(QkvBlocks(projection, AttentionBlocks::kByHead, {.size = 36}),
              StatusIs(kInvalid,
                       "want query_heads to be a multiple of the 2 key_heads, "
                       "got 5"));
  projection.query_heads = 0;
  EXPECT_THAT(QkvBlocks(projection, AttentionBlocks::kByHead, {.size = 36}),
              StatusIs(kInvalid, "want query_heads in [1, 1048576], got 0"));
  projection = GroupedQuery();
  projection.key_heads = -1;
  EXPECT_THAT(QkvBlocks(projection, AttentionBlocks::kByHead, {.size = 36}),
              StatusIs(kInvalid, "want key_heads in [1, 1048576], got -1"));
  projection = GroupedQuery();
  projection.head_size = int64_t{1} << 40;
  EXPECT_THAT(QkvBlocks(projection, AttentionBlocks::kByHead, {.size = 36}),
              StatusIs(kInvalid, "want head_size in [1, 1048576]"));
}

TEST(BlockLayoutTest, GateAndUpAreHalves) {
  const auto blocks = GateUpBlocks({.dimension = 1, .size = 13, .padding = 1});
  ASSERT_THAT(blocks, IsOk());
  EXPECT_THAT(blocks->sizes, ElementsAre(6, 6));
  EXPECT_EQ(blocks->dimension, 1);
  EXPECT_EQ(blocks->padding, 1);
  EXPECT_THAT(CheckInSpec(*blocks, 13), IsOk());
  EXPECT_THAT(GateUpBlocks({.dimension = 0, .size = 13}),
              StatusIs(kInvalid,
                       "blocks of gate and up: want a size of dimension 0 that "
                       "is a multiple of 2 and the padding, got 13 with a "
                       "padding of 0"));
}

TEST(BlockLayoutTest, HeadsAreEqual) {
  const auto blocks = HeadBlocks(3, {.dimension = 0, .size = 12});
  ASSERT_THAT(blocks, IsOk());
  EXPECT_THAT(blocks->sizes, ElementsAre(4, 4, 4));
  EXPECT_THAT(HeadBlocks(5, {.dimension = 0, .size = 12}),
              StatusIs(kInvalid, "blocks of heads: want a size"));
  EXPECT_THAT(HeadBlocks(0, {.dimension = 0, .size = 12}),
              StatusIs(kInvalid, "want heads in [1, 1048576], got 0"));
  // Less than one row each.
  EXPECT_THAT(HeadBlocks(24, {.dimension = 0, .size = 12}),
              StatusIs(kInvalid, "multiple of 24"));
}

TEST(BlockLayoutTest, TheCutIsChecked) {
  EXPECT_THAT(GateUpBlocks({.dimension = 2, .size = 12}),
              StatusIs(kInvalid, "want dimension 0 or 1, got 2"));
  for (const int64_t padding : {-1, 12, 13}) {
    EXPECT_THAT(GateUpBlocks({.size = 12, .padding = padding}),
                StatusIs(kInvalid,
                         "want a padding of at least 0 and less than the size "
                         "12 of dimension 0, got "));
  }
  EXPECT_THAT(QkvBlocks(GroupedQuery(), AttentionBlocks::kByHead,
                        {.dimension = 0, .size = 0}),
              StatusIs(kInvalid, "less than the size 0"));
}

}  // namespace
}  // namespace muonshard
