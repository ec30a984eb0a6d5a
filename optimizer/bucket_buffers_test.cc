#include "optimizer/bucket_buffers.h"

#include <gtest/gtest.h>

#include <cstdint>
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
  buffers.HoldGradients();
  const Piece& first =
      plan.buckets[0].pieces[static_cast<size_t>(buffers.pieces_of(0).front())];
  EXPECT_EQ(buffers.pieces_of(0).size(), 2);
  EXPECT_EQ(buffers.whole_gradient_of(0), buffers.gradient_of(0, first));
}

// The caller would write the padding's gradient past the last piece.
TEST(BucketBuffersTest, AParameterWithPaddingRowsHasNoWholeGradient) {
  const Plan plan = PlanOf(1);
  BucketBuffers buffers(plan, Rank(0));
  buffers.HoldGradients();
  EXPECT_EQ(plan.buckets[0].count, 8 * 16);
  EXPECT_EQ(buffers.whole_gradient_of(0), nullptr);
}

TEST(BucketBuffersTest, GradientsAreThereWhileTheyAreHeldAndZeroWhenMade) {
  const Plan plan = PlanOf(0);
  BucketBuffers buffers(plan, Rank(0));
  const int64_t bytes = plan.buckets[0].count * int64_t{sizeof(float)};
  EXPECT_EQ(buffers.gradient_bytes(), 0);
  EXPECT_EQ(buffers.whole_gradient_of(0), nullptr);
  for (int i = 0; i < 2; ++i) {
    buffers.HoldGradients();
    EXPECT_EQ(buffers.gradient_bytes(), bytes);
    auto* values = reinterpret_cast<float*>(buffers.whole_gradient_of(0));
    ASSERT_NE(values, nullptr);
    EXPECT_EQ(values[5], 0);
    values[5] = 1;
    // What is there stays as it is.
    buffers.HoldGradients();
    EXPECT_EQ(buffers.gradient_bytes(), bytes);
    EXPECT_EQ(values[5], 1);
    buffers.ReleaseGradients(0);
    EXPECT_EQ(buffers.gradient_bytes(), 0);
    EXPECT_EQ(buffers.whole_gradient_of(0), nullptr);
  }
}

}  // namespace
}  // namespace muonshard
