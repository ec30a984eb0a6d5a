#include "optimizer/bucket_buffers.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "optimizer/options.h"
#include "topology/host_map.h"
#include "topology/mesh.h"

namespace muonshard {
namespace {

// A stack of two matrices, its padding below them, on one rank.
Plan PlanOf(int64_t padding_rows) {
  ParameterSpec spec;
  spec.name = "fused";
  spec.shape = {8 + padding_rows, 16};
  spec.rule = Rule::kMuon;
  spec.blocks = {.dimension = 0, .sizes = {4, 4}, .padding = padding_rows};
  const Mesh mesh = *Mesh::Parse("data=1");
  return *Plan::Create({spec}, mesh, HostMap::FromHostIds({"host"}), {});
}

TEST(BucketBuffersTest, AParameterInOneRunHasAWholeGradient) {
  const Plan plan = PlanOf(0);
  BucketBuffers buffers(plan, Rank(0));
  const Piece& first =
      plan.buckets[0].pieces[static_cast<size_t>(buffers.pieces_of(0).front())];
  EXPECT_EQ(buffers.pieces_of(0).size(), 2);
  EXPECT_EQ(buffers.whole_gradient_of(0), buffers.gradient_of(0, first));
}

// The caller would write the padding's gradient past the last piece.
TEST(BucketBuffersTest, AParameterWithPaddingRowsHasNoWholeGradient) {
  const Plan plan = PlanOf(1);
  BucketBuffers buffers(plan, Rank(0));
  EXPECT_EQ(plan.buckets[0].count, 8 * 16);
  EXPECT_EQ(buffers.whole_gradient_of(0), nullptr);
}

}  // namespace
}  // namespace muonshard
