#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "optimizer/options.h"
#include "optimizer/plan.h"
#include "topology/host_map.h"
#include "topology/mesh.h"

namespace muonshard {
namespace {

ParameterSpec Matrix(std::vector<int64_t> shape, Blocks blocks) {
  ParameterSpec spec;
  spec.name = "w";
  spec.shape = std::move(shape);
  spec.rule = Rule::kMuon;
  spec.blocks = std::move(blocks);
  return spec;
}

Plan PlanOf(const ParameterSpec& spec) {
  return *Plan::Create({spec}, *Mesh::Parse("data=2"),
                       HostMap::FromHostIds({"host", "host"}), {});
}

int64_t Flops(const Plan& plan) {
  int64_t flops = 0;
  for (const RankLoad& load : plan.rank_load) flops += load.newton_schulz_flops;
  return flops;
}

int64_t StateBytes(const ParameterSpec& spec, const OptimizerOptions& options) {
  const Plan plan = *Plan::Create({spec}, *Mesh::Parse("data=2"),
                                  HostMap::FromHostIds({"a", "a"}), options);
  int64_t bytes = 0;
  for (const RankLoad& load : plan.rank_load) bytes += load.state_bytes;
  return bytes;
}

int64_t FlopsOf(const std::vector<ParameterSpec>& specs) {
  int64_t flops = 0;
  for (const ParameterSpec& spec : specs) flops += Flops(PlanOf(spec));
  return flops;
}

TEST(PlanPaddingTest, PaddingRowsLieInNoPiece) {
  // Two matrices of 9 rows: blocks of 2 and 5, and 2 rows of padding.
  const Plan plan = PlanOf(
      Matrix({2, 9, 16}, {.dimension = 0, .sizes = {2, 5}, .padding = 2}));
  std::vector<int64_t> covered(2 * 9, 0);
  ASSERT_EQ(plan.buckets.size(), 1);
  int64_t count = 0;
  for (const Piece& piece : plan.buckets[0].pieces) {
    EXPECT_EQ(piece.cols, 16);
    EXPECT_EQ(piece.parameter_offset % 16, 0);
    EXPECT_EQ(piece.count, piece.rows * 16);
    for (int64_t row = 0; row < piece.rows; ++row) {
      ++covered[static_cast<size_t>(piece.parameter_offset / 16 + row)];
    }
    count += piece.count;
  }
  EXPECT_EQ(covered, (std::vector<int64_t>{1, 1, 1, 1, 1, 1, 1, 0, 0,  //
                                           1, 1, 1, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(plan.buckets[0].count, count);
}

TEST(PlanPaddingTest, PaddingOfAnUncutMatrixLeavesOneBlock) {
  const Plan rows =
      PlanOf(Matrix({9, 16}, {.dimension = 0, .sizes = {}, .padding = 2}));
  ASSERT_EQ(rows.buckets[0].pieces.size(), 1);
  EXPECT_EQ(rows.buckets[0].pieces[0].rows, 7);
  EXPECT_EQ(Flops(rows), FlopsOf({Matrix({7, 16}, {})}));
  const Plan cols =
      PlanOf(Matrix({9, 16}, {.dimension = 1, .sizes = {}, .padding = 2}));
  ASSERT_EQ(cols.buckets[0].pieces.size(), 1);
  EXPECT_EQ(cols.buckets[0].pieces[0].count, 9 * 16);
  EXPECT_EQ(Flops(cols), FlopsOf({Matrix({9, 14}, {})}));
}

TEST(PlanPaddingTest, PaddingCostsNoNewtonSchulz) {
  EXPECT_EQ(FlopsOf({Matrix({9, 16},
                            {.dimension = 1, .sizes = {3, 10}, .padding = 3})}),
            FlopsOf({Matrix({9, 3}, {}), Matrix({9, 10}, {})}));
  EXPECT_EQ(FlopsOf({Matrix({9, 16},
                            {.dimension = 0, .sizes = {3, 5}, .padding = 1})}),
            FlopsOf({Matrix({3, 16}, {}), Matrix({5, 16}, {})}));
}

// One moment for each row of each block, or for each of its columns.
TEST(PlanPaddingTest, NormalizedRowsCountInTheState) {
  ParameterSpec spec =
      Matrix({9, 16}, {.dimension = 1, .sizes = {3, 10}, .padding = 3});
  OptimizerOptions options;
  const int64_t without = StateBytes(spec, options);
  EXPECT_EQ(without, 4 * 9 * 16);
  options.muon.row_normalization = true;
  EXPECT_EQ(StateBytes(spec, options) - without, 4 * 2 * 9);
  spec.fan_out_dimension = 1;
  EXPECT_EQ(StateBytes(spec, options) - without, 4 * (3 + 10));
}

}  // namespace
}  // namespace muonshard
