#include "tools/trainer/model_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/data_type.h"
#include "optimizer/compute/convert.h"

namespace muonshard {
namespace {

using ::testing::HasSubstr;

constexpr ByteGptShape kMoe{
    .width = 8, .layers = 2, .heads = 2, .context = 4, .experts = 8};

std::vector<ParameterSpec> Placed(const ByteGptShape& shape,
                                  const std::string& mesh_text) {
  const Mesh mesh = *Mesh::Parse(mesh_text);
  auto specs = PlaceOnMesh(
      shape, GptParameterSpecs(shape, Rule::kMuon, DataType::kF16), mesh);
  EXPECT_TRUE(specs.ok()) << specs.status();
  EXPECT_TRUE(ValidateAll(*specs, mesh).ok()) << ValidateAll(*specs, mesh);
  return *std::move(specs);
}

TEST(PlaceOnMeshTest, BanksAreDistinctOverExpertsAndAllElseIsShared) {
  for (const ParameterSpec& spec : Placed(kMoe, "moe_sharding=2,ep=4")) {
    const bool bank = spec.shape.size() == 3;
    EXPECT_EQ(bank, spec.name.find("experts.up") != spec.name.npos ||
                        spec.name.find("experts.down") != spec.name.npos)
        << spec.name;
    EXPECT_EQ(RoleOver(spec, "moe_sharding"), AxisRole::kShard) << spec.name;
    EXPECT_EQ(RoleOver(spec, "ep"),
              bank ? AxisRole::kDistinct : AxisRole::kShard)
        << spec.name;
    if (bank) {
      EXPECT_EQ(spec.shape[0], 2) << spec.name;
    }
  }
}

TEST(PlaceOnMeshTest, EveryParameterIsCopiedOverReplicas) {
  for (const ParameterSpec& spec : Placed(kMoe, "dp=2,sharding=2,ep=2")) {
    EXPECT_EQ(RoleOver(spec, "dp"), AxisRole::kReplicate) << spec.name;
    EXPECT_EQ(RoleOver(spec, "sharding"), AxisRole::kShard) << spec.name;
  }
}

TEST(PlaceOnMeshTest, WithoutExpertsTheirAxisIsLikeAnyOther) {
  ByteGptShape dense = kMoe;
  dense.experts = 0;
  for (const ParameterSpec& spec : Placed(dense, "moe_sharding=2,ep=4")) {
    EXPECT_TRUE(spec.roles.empty()) << spec.name;
  }
}

TEST(PlaceOnMeshTest, WithoutTheirAxisExpertsAreWholeOnEveryRank) {
  for (const ParameterSpec& spec : Placed(kMoe, "sharding=4")) {
    EXPECT_TRUE(spec.roles.empty()) << spec.name;
    if (spec.shape.size() == 3) {
      EXPECT_EQ(spec.shape[0], 8) << spec.name;
    }
  }
}

TEST(PlaceOnMeshTest, ExpertsThatDoNotDivideAreRefused) {
  const Mesh mesh = *Mesh::Parse("ep=3");
  const absl::Status status =
      PlaceOnMesh(kMoe, GptParameterSpecs(kMoe, Rule::kMuon), mesh).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("experts: want a multiple of 3, the degree of mesh axis "
                "ep, got 8"));
  EXPECT_EQ(CheckExperts(kMoe, mesh), status);
}

TEST(ExpertPlaceTest, ThePlaceIsTheCoordinateAlongTheAxis) {
  const Mesh mesh = *Mesh::Parse("ep=2,sharding=3");
  EXPECT_EQ(ExpertPlaceOf(kMoe, mesh, Rank{2}).index, 0);
  EXPECT_EQ(ExpertPlaceOf(kMoe, mesh, Rank{3}).index, 1);
  EXPECT_EQ(ExpertPlaceOf(kMoe, mesh, Rank{3}).count, 2);
  EXPECT_EQ(ExpertPlaceOf(ByteGptShape{}, mesh, Rank{3}).count, 1);
}

TEST(FirstValuesTest, EveryPlaceHasItsExpertsAndTheWholeOfAllElse) {
  const std::vector<ParameterSpec> specs = Placed(kMoe, "ep=4");
  const auto whole = GptInitialValues(kMoe, 3);
  for (size_t p = 0; p < specs.size(); ++p) {
    std::vector<float> joined;
    for (int32_t place = 0; place < 4; ++place) {
      const std::vector<std::byte> values =
          FirstValuesAt(specs[p], whole[p], {.index = place, .count = 4});
      std::vector<float> floats(values.size() / 2);
      ToFloat(DataType::kF16, values.data(), floats);
      joined.insert(joined.end(), floats.begin(), floats.end());
      if (specs[p].shape.size() != 3) break;
    }
    ASSERT_EQ(joined.size(), whole[p].size()) << specs[p].name;
    for (size_t i = 0; i < joined.size(); ++i) {
      // Half of the last of 11 bits; below 2^-14, of the least step of f16.
      EXPECT_NEAR(joined[i], whole[p][i],
                  std::max(std::abs(whole[p][i]) * 0x1p-11, 0x1p-25));
    }
  }
}

}  // namespace
}  // namespace muonshard
