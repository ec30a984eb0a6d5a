#include "tools/trainer/gpt_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "topology/mesh.h"

namespace muonshard {
namespace {

using ::testing::HasSubstr;

std::string TextOf(const absl::Status& status) {
  return std::string(status.message());
}

TEST(GptParametersTest, TheDefaultShapeHasAboutAMillionElements) {
  int64_t elements = 0;
  for (const ParameterSpec& spec :
       GptParameterSpecs(ByteGptShape{}, Rule::kMuon)) {
    elements += ElementCount(spec);
  }
  EXPECT_GT(elements, 800'000);
  EXPECT_LT(elements, 1'200'000);
}

TEST(GptParametersTest, SpecsAreAcceptedByTheOptimizer) {
  const Mesh mesh = *Mesh::Parse("sharding=4");
  for (const Rule rule : {Rule::kMuon, Rule::kAdamW}) {
    EXPECT_TRUE(
        ValidateAll(GptParameterSpecs(ByteGptShape{}, rule), mesh).ok());
  }
}

TEST(GptParametersTest, IndicesPointToTheParametersTheyName) {
  const ByteGptShape shape{.width = 8, .layers = 3, .heads = 2, .context = 5};
  const std::vector<ParameterSpec> specs =
      GptParameterSpecs(shape, Rule::kMuon);
  const GptIndices indices = IndicesOf(shape);
  const auto name = [&](int32_t i) {
    return specs[static_cast<size_t>(i)].name;
  };
  ASSERT_EQ(indices.layers.size(), 3u);
  EXPECT_EQ(name(indices.tokens), "tokens.weight");
  EXPECT_EQ(name(indices.positions), "positions.weight");
  EXPECT_EQ(name(indices.layers[0].norm1_weight), "layer0.norm1.weight");
  EXPECT_EQ(name(indices.layers[1].qkv_weight), "layer1.attention.qkv.weight");
  EXPECT_EQ(name(indices.layers[1].projection_bias),
            "layer1.attention.projection.bias");
  EXPECT_EQ(name(indices.layers[2].up_weight), "layer2.mlp.up.weight");
  EXPECT_EQ(name(indices.layers[2].down_bias), "layer2.mlp.down.bias");
  EXPECT_EQ(name(indices.norm_bias), "norm.bias");
  EXPECT_EQ(static_cast<size_t>(indices.head), specs.size() - 1);
}

TEST(GptParametersTest, ExpertsStandInPlaceOfTheMlp) {
  const ByteGptShape shape{
      .width = 8, .layers = 2, .heads = 2, .context = 5, .experts = 3};
  const std::vector<ParameterSpec> specs =
      GptParameterSpecs(shape, Rule::kMuon);
  const GptLayerIndices layer = IndicesOf(shape).layers[1];
  const auto spec = [&](int32_t i) { return specs[static_cast<size_t>(i)]; };
  EXPECT_EQ(spec(layer.router).name, "layer1.experts.router.weight");
  EXPECT_EQ(spec(layer.router).rule, Rule::kAdamW);
  EXPECT_EQ(spec(layer.router).shape, (std::vector<int64_t>{3, 8}));
  EXPECT_EQ(spec(layer.expert_up).name, "layer1.experts.up.weight");
  EXPECT_EQ(spec(layer.expert_up).rule, Rule::kMuon);
  EXPECT_EQ(spec(layer.expert_up).shape, (std::vector<int64_t>{3, 32, 8}));
  EXPECT_EQ(spec(layer.expert_down).shape, (std::vector<int64_t>{3, 8, 32}));
  EXPECT_EQ(layer.up_weight, -1);
  EXPECT_EQ(static_cast<size_t>(IndicesOf(shape).head), specs.size() - 1);
  for (const ParameterSpec& each : specs) {
    EXPECT_EQ(each.name.find("mlp"), each.name.npos) << each.name;
  }
  const auto values = GptInitialValues(shape, 1);
  EXPECT_EQ(values[static_cast<size_t>(layer.expert_down)].size(), 3u * 8 * 32);
}

TEST(GptParametersTest, PrecisionIsThatOfParametersAndGradients) {
  for (const DataType type :
       {DataType::kF32, DataType::kBF16, DataType::kF16}) {
    for (const ParameterSpec& spec :
         GptParameterSpecs(ByteGptShape{}, Rule::kMuon, type)) {
      EXPECT_EQ(spec.dtype, type) << spec.name;
      EXPECT_EQ(spec.gradient_dtype, type) << spec.name;
    }
  }
}

TEST(GptParametersTest, MuonTakesTheHiddenMatricesAndCutsQkvIntoThree) {
  const ByteGptShape shape{.width = 8, .layers = 1, .heads = 2, .context = 5};
  int32_t muon = 0;
  for (const ParameterSpec& spec : GptParameterSpecs(shape, Rule::kMuon)) {
    const bool hidden = spec.shape.size() == 2 && spec.name.find("layer") == 0;
    EXPECT_EQ(spec.rule == Rule::kMuon, hidden) << spec.name;
    muon += hidden;
    if (spec.name == "layer0.attention.qkv.weight") {
      EXPECT_EQ(spec.blocks.sizes, (std::vector<int64_t>{8, 8, 8}));
    } else {
      EXPECT_TRUE(spec.blocks.sizes.empty()) << spec.name;
    }
  }
  EXPECT_EQ(muon, 4);
  for (const ParameterSpec& spec : GptParameterSpecs(shape, Rule::kAdamW)) {
    EXPECT_EQ(spec.rule, Rule::kAdamW);
  }
}

TEST(GptParametersTest, FirstValuesComeFromTheSeedAlone) {
  const ByteGptShape shape{.width = 8, .layers = 1, .heads = 2, .context = 5};
  EXPECT_EQ(GptInitialValues(shape, 7), GptInitialValues(shape, 7));
  EXPECT_NE(GptInitialValues(shape, 7), GptInitialValues(shape, 8));
}

TEST(GptParametersTest, FirstValuesHaveTheDeviationThatIsPromised) {
  const ByteGptShape shape{.width = 64, .layers = 2, .heads = 2, .context = 5};
  const auto values = GptInitialValues(shape, 1);
  const GptIndices indices = IndicesOf(shape);
  const auto deviation = [&](int32_t i) {
    const std::vector<float>& of = values[static_cast<size_t>(i)];
    double squares = 0;
    for (const float value : of) squares += double{value} * value;
    return std::sqrt(squares / static_cast<double>(of.size()));
  };
  // The deviation of n samples is off by 1/sqrt(2n) of itself; 5 times that
  // for n = 16384 and 4096.
  EXPECT_NEAR(deviation(indices.tokens), 0.02, 0.02 * 5 / std::sqrt(2 * 16384));
  EXPECT_NEAR(deviation(indices.layers[1].projection_weight), 0.01,
              0.01 * 5 / std::sqrt(2 * 4096));
  EXPECT_EQ(values[static_cast<size_t>(indices.norm_weight)],
            std::vector<float>(64, 1.0f));
  EXPECT_EQ(values[static_cast<size_t>(indices.norm_bias)],
            std::vector<float>(64, 0.0f));
}

TEST(GptParametersTest, AWrongShapeIsRefusedByField) {
  EXPECT_THAT(TextOf(Validate(ByteGptShape{.width = 0})),
              HasSubstr("width: want a number in [1, 4096], got 0"));
  EXPECT_THAT(TextOf(Validate(ByteGptShape{.layers = 65})),
              HasSubstr("layers"));
  EXPECT_THAT(TextOf(Validate(ByteGptShape{.heads = 0})), HasSubstr("heads"));
  EXPECT_THAT(TextOf(Validate(ByteGptShape{.context = 5000})),
              HasSubstr("context"));
  EXPECT_THAT(TextOf(Validate(ByteGptShape{.width = 10, .heads = 4})),
              HasSubstr("multiple of 4 heads, got 10"));
  EXPECT_THAT(TextOf(Validate(ByteGptShape{.experts = 257})),
              HasSubstr("experts: want a number in [0, 256], got 257"));
  EXPECT_TRUE(Validate(ByteGptShape{}).ok());
}

}  // namespace
}  // namespace muonshard
