#include "optimizer/shapes/model_shapes.h"

#include <algorithm>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "topology/mesh.h"

namespace muonshard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

int64_t ElementsOf(const std::vector<ParameterSpec>& specs) {
  int64_t count = 0;
  for (const ParameterSpec& spec : specs) count += ElementCount(spec);
  return count;
}

const ParameterSpec& Find(const std::vector<ParameterSpec>& specs,
                          const std::string& name) {
  const auto it = std::find_if(
      specs.begin(), specs.end(),
      [&name](const ParameterSpec& spec) { return spec.name == name; });
  EXPECT_NE(it, specs.end()) << name;
  return *it;
}

// The element counts that the models' authors publish.
TEST(ModelShapesTest, ModelsHaveTheirPublishedSizes) {
  EXPECT_EQ(ElementsOf(Gpt2Parameters124M()), 124'439'808);
  EXPECT_EQ(ElementsOf(Llama3Parameters8B()), 8'030'261'248);
  EXPECT_EQ(ElementsOf(*DeepSeekMoeParameters16B(Mesh())), 16'375'728'128);
}

// 12 l d d + 13 l d for the layers, (v + c + 2) d around them.
TEST(ModelShapesTest, GptHasTheSizeOfItsFormula) {
  constexpr int64_t kLayers = 24;
  constexpr int64_t kWidth = 2048;
  EXPECT_EQ(ElementsOf(GptParameters1300M()), 12 * kLayers * kWidth * kWidth +
                                                  13 * kLayers * kWidth +
                                                  (50257 + 2048 + 2) * kWidth);
}

TEST(ModelShapesTest, EveryParameterIsValid) {
  for (const std::string& name : ModelNames()) {
    const absl::StatusOr<std::vector<ParameterSpec>> specs =
        ModelParameters(name, *Mesh::Parse("dp=4,ep=8"));
    ASSERT_TRUE(specs.ok()) << specs.status();
    const absl::Status status = ValidateAll(*specs, *Mesh::Parse("dp=4,ep=8"));
    EXPECT_TRUE(status.ok()) << name << ": " << status;
  }
}

TEST(ModelShapesTest, StackedMatricesAreBlocksOfRows) {
  const std::vector<ParameterSpec> gpt = Gpt2Parameters124M();
  EXPECT_THAT(Find(gpt, "blocks.11.attention.qkv.weight").blocks.sizes,
              ElementsAre(768, 768, 768));
  const std::vector<ParameterSpec> llama = Llama3Parameters8B();
  EXPECT_THAT(Find(llama, "layers.31.attention.qkv").blocks.sizes,
              ElementsAre(4096, 1024, 1024));
  EXPECT_THAT(Find(llama, "layers.0.mlp.gate_up").blocks.sizes,
              ElementsAre(14336, 14336));
  EXPECT_TRUE(Find(llama, "layers.0.mlp.down").blocks.sizes.empty());
}

TEST(ModelShapesTest, ExpertsLiveApartOverTheirAxis) {
  const Mesh mesh = *Mesh::Parse("moe_sharding=2,ep=8");
  const std::vector<ParameterSpec> specs = *DeepSeekMoeParameters16B(mesh);
  const ParameterSpec& experts = Find(specs, "layers.27.experts.gate_up");
  EXPECT_THAT(experts.shape, ElementsAre(8, 2 * 1408, 2048));
  EXPECT_THAT(experts.blocks.sizes, ElementsAre(1408, 1408));
  EXPECT_EQ(RoleOver(experts, "ep"), AxisRole::kDistinct);
  EXPECT_EQ(RoleOver(experts, "moe_sharding"), AxisRole::kShard);
  EXPECT_EQ(RoleOver(Find(specs, "layers.27.router"), "ep"), AxisRole::kShard);
}

TEST(ModelShapesTest, ExpertsThatDoNotDivideAreRefused) {
  const absl::Status status =
      ModelParameters("deepseek-moe-16b", *Mesh::Parse("ep=12")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("64 experts, got 12"));
}

TEST(ModelShapesTest, AnUnknownNameListsTheKnownOnes) {
  const absl::Status status = ModelParameters("gpt5").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("no model \"gpt5\"; there are gpt2-124m, gpt-1.3b, "
                        "llama3-8b, deepseek-moe-16b"));
}

}  // namespace
}  // namespace muonshard
