#include "optimizer/shapes/shapes_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::Pair;

TEST(ShapesFileTest, EveryFieldOfASpecCanBeGiven) {
  const auto specs = ParseShapes(R"({"parameters": [
    {"name": "w", "shape": [4, 24, 8], "rule": "muon", "dtype": "bf16",
     "gradient_dtype": "f32", "fan_out_dimension": 1,
     "blocks": {"dimension": 1, "sizes": [3, 4], "padding": 1},
     "roles": {"tp": "slice", "pp": "distinct"}, "coordinates": {"pp": [0, 2]},
     "blockwise": true, "gradient_mode": "accumulate",
     "absent_gradient": "skip", "check_ins": "sync_only",
     "learning_rate_scale": 0.5, "schedule": "slow", "weight_decay": false}
  ]})");
  ASSERT_THAT(specs, IsOk());
  ASSERT_EQ(specs->size(), 1);
  const ParameterSpec& w = specs->front();
  EXPECT_EQ(w.name, "w");
  EXPECT_THAT(w.shape, ElementsAre(4, 24, 8));
  EXPECT_EQ(w.rule, Rule::kMuon);
  EXPECT_EQ(w.dtype, DataType::kBF16);
  EXPECT_EQ(w.gradient_dtype, DataType::kF32);
  EXPECT_EQ(w.fan_out_dimension, 1);
  EXPECT_EQ(w.blocks.dimension, 1);
  EXPECT_THAT(w.blocks.sizes, ElementsAre(3, 4));
  EXPECT_EQ(w.blocks.padding, 1);
  EXPECT_THAT(w.roles, ElementsAre(Pair("pp", AxisRole::kDistinct),
                                   Pair("tp", AxisRole::kSlice)));
  EXPECT_THAT(w.coordinates, ElementsAre(Pair("pp", ElementsAre(0, 2))));
  EXPECT_TRUE(w.blockwise);
  EXPECT_EQ(w.gradient_mode, GradientMode::kAccumulate);
  EXPECT_EQ(w.absent_gradient, AbsentGradient::kSkip);
  EXPECT_EQ(w.check_ins, CheckIns::kSyncOnly);
  EXPECT_EQ(w.learning_rate_scale, 0.5);
  EXPECT_EQ(w.schedule, "slow");
  EXPECT_FALSE(w.weight_decay);
}

TEST(ShapesFileTest, WhatIsNotGivenHasItsDefault) {
  const auto specs = ParseShapes(
      R"({"parameters": [{"name": "b", "shape": [7], "rule": "adamw"}]})");
  ASSERT_THAT(specs, IsOk());
  const ParameterSpec& b = specs->front();
  EXPECT_EQ(b.dtype, DataType::kF32);
  EXPECT_TRUE(b.roles.empty());
  EXPECT_TRUE(b.weight_decay);
}

TEST(ShapesFileTest, RepeatedParametersAreNumbered) {
  const auto specs = ParseShapes(R"({"parameters": [
    {"name": "first", "shape": [2], "rule": "adamw"},
    {"repeat": 2, "parameters": [
      {"name": "layers.{}.a", "shape": [2, 3], "rule": "muon"},
      {"name": "layers.{}.b", "shape": [2], "rule": "adamw"}]}]})");
  ASSERT_THAT(specs, IsOk());
  std::vector<std::string> names;
  for (const ParameterSpec& spec : *specs) names.push_back(spec.name);
  EXPECT_THAT(names, ElementsAre("first", "layers.0.a", "layers.0.b",
                                 "layers.1.a", "layers.1.b"));
}

struct WrongText {
  std::string name;
  std::string text;
  std::string message;
};

class WrongShapesFileTest : public ::testing::TestWithParam<WrongText> {};

TEST_P(WrongShapesFileTest, IsRefusedAndTheFieldNamed) {
  EXPECT_THAT(ParseShapes(GetParam().text),
              StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

// The text of one parameter with the given further fields.
std::string With(const char* fields) {
  return absl::StrCat(
      R"({"parameters": [{"name": "w", "shape": [2, 3], "rule": "muon")",
      fields, "}]}");
}

std::string WrongTextName(const ::testing::TestParamInfo<WrongText>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Texts, WrongShapesFileTest,
    ::testing::Values(
        WrongText{"NoJson", "{", "want JSON"},
        WrongText{"NoObject", "[1]", "\"parameters\", a list"},
        WrongText{"NoList", R"({"parameters": 3})", "\"parameters\", a list"},
        WrongText{"MoreThanParameters", R"({"parameters": [], "layers": 3})",
                  "\"parameters\", a list"},
        WrongText{"NoName", R"({"parameters": [{"shape": [1]}]})",
                  "a parameter with a name"},
        WrongText{"NoParameter", R"({"parameters": [3]})",
                  "a parameter with a name"},
        WrongText{"NoShape", R"({"parameters": [{"name": "w"}]})",
                  "\"w\": want a shape"},
        WrongText{"NoRule", R"({"parameters": [{"name": "w", "shape": [1]}]})",
                  "\"w\": want a rule"},
        WrongText{"UnknownField", With(R"(, "shapes": [1])"),
                  "\"w\": no field \"shapes\"; there are name, shape"},
        WrongText{"UnknownBlocksField", With(R"(, "blocks": {"size": [1]})"),
                  "no field \"blocks.size\"; there are dimension"},
        WrongText{"UnknownRole", With(R"(, "roles": {"ep": "own"})"),
                  "\"w\": roles.ep: want one of shard, replicate, distinct"},
        WrongText{"RolesTwice",
                  With(R"(, "roles": {"ep": "shard", "ep": "distinct"})"),
                  "got \"ep\" twice"},
        WrongText{"RolesNoObject", With(R"(, "roles": "shard")"),
                  "roles: want an object of axes"},
        WrongText{"BlocksNoObject", With(R"(, "blocks": [1])"),
                  "blocks: want an object"},
        WrongText{"FractionInShape",
                  R"({"parameters": [{"name": "w", "shape": [2.5],
                      "rule": "muon"}]})",
                  "shape: want an integer, got 2.5"},
        WrongText{"TooLargeInteger",
                  With(R"(, "fan_out_dimension": 4294967296)"),
                  "fan_out_dimension: want an integer, got 4294967296"},
        WrongText{"LargestUnsigned",
                  R"({"parameters": [{"name": "w", "rule": "muon",
                      "shape": [18446744073709551615]}]})",
                  "shape: want an integer"},
        WrongText{"ShapeNoList",
                  R"({"parameters": [{"name": "w", "shape": 2,
                      "rule": "muon"}]})",
                  "shape: want a list of integers"},
        WrongText{"DtypeOfNoGradient", With(R"(, "dtype": "i64")"),
                  "dtype: want one of f32, bf16, f16, got \"i64\""},
        WrongText{"TextForABool", With(R"(, "weight_decay": "no")"),
                  "weight_decay: want true or false"},
        WrongText{"TextForANumber", With(R"(, "learning_rate_scale": "1")"),
                  "learning_rate_scale: want a number"},
        WrongText{"NumberForText", With(R"(, "schedule": 1)"),
                  "schedule: want text"},
        WrongText{"NoCopies", R"({"parameters": [{"repeat": 0,
                                  "parameters": []}]})",
                  "repeat: want an integer in [1, 100000], got 0"},
        WrongText{"RepeatOfNothing", R"({"parameters": [{"repeat": 2}]})",
                  "\"repeat\" and \"parameters\""},
        WrongText{"RepeatInRepeat",
                  R"({"parameters": [{"repeat": 2, "parameters": [
                      {"repeat": 2, "parameters": []}]}]})",
                  "a parameter with a name"},
        WrongText{"WrongInRepeat",
                  R"({"parameters": [{"repeat": 2, "parameters": [
                      {"name": "w{}", "shape": [1]}]}]})",
                  "want a rule"}),
    WrongTextName);

}  // namespace
}  // namespace muonshard
