#include "optimizer/parameter_spec.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muonshard {
namespace {

using ::testing::HasSubstr;

Mesh TestMesh() { return *Mesh::Parse("dp=2,tp=4"); }

ParameterSpec Muon(std::vector<int64_t> shape) {
  return {.name = "w", .shape = std::move(shape), .rule = Rule::kMuon};
}

ParameterSpec AdamW(std::vector<int64_t> shape) {
  return {.name = "v", .shape = std::move(shape), .rule = Rule::kAdamW};
}

void ExpectInvalid(const ParameterSpec& spec, const std::string& message) {
  const absl::Status status = Validate(spec, TestMesh());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

void ExpectValid(const ParameterSpec& spec) {
  const absl::Status status = Validate(spec, TestMesh());
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ParameterSpecTest, UsualShapesAreValid) {
  ExpectValid(Muon({3, 5}));
  ExpectValid(Muon({1, 1}));
  ExpectValid(Muon({7, 3, 5}));
  ExpectValid(AdamW({1}));
  ExpectValid(AdamW({2, 3, 4, 5}));
}

TEST(ParameterSpecTest, ElementCountIsTheProductOfTheShape) {
  EXPECT_EQ(ElementCount(Muon({7, 3, 5})), 105);
  EXPECT_EQ(ElementCount(AdamW({9})), 9);
}

TEST(ParameterSpecTest, MuonTakesTwoOrThreeDimensions) {
  ExpectInvalid(Muon({8}),
                "parameter \"w\": shape: want 2 or 3 dimensions for muon, got "
                "[8]");
  ExpectInvalid(Muon({2, 2, 2, 2}), "want 2 or 3 dimensions for muon");
  ExpectInvalid(Muon({}), "want 2 or 3 dimensions for muon");
}

TEST(ParameterSpecTest, EveryDimensionIsAtLeastOne) {
  ExpectInvalid(AdamW({}), "parameter \"v\": shape: want at least one");
  ExpectInvalid(AdamW({4, 0}), "want dimensions of at least 1, got [4,0]");
  ExpectInvalid(Muon({-4, 4}), "want dimensions of at least 1, got [-4,4]");
}

TEST(ParameterSpecTest, ShapesThatOverflowAreRefused) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  ExpectInvalid(AdamW({huge, huge}), "want at most 1099511627776 elements");
  ExpectInvalid(Muon({int64_t{1} << 21, 1, 1}),
                "want at most 1048576 matrices in one parameter, got 2097152");
}

TEST(ParameterSpecTest, AMatrixTooLongForItsProductsIsRefused) {
  const int64_t size = int64_t{1} << 31;
  ExpectInvalid(Muon({size, 8}),
                "want dimensions of at most 2147483647 for muon, got "
                "[2147483648,8]");
  EXPECT_TRUE(Validate(AdamW({size, 8}), Mesh()).ok());
}

TEST(ParameterSpecTest, ANameIsNeededAndUsedOnce) {
  ParameterSpec spec = Muon({2, 3});
  spec.name.clear();
  ExpectInvalid(spec, "a parameter of shape [2,3] has no name");
  const absl::Status status =
      ValidateAll({Muon({2, 3}), AdamW({4}), Muon({2, 3})}, TestMesh());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("parameter \"w\": name: want each name once"));
  EXPECT_TRUE(ValidateAll({Muon({2, 3}), AdamW({4})}, TestMesh()).ok());
}

TEST(ParameterSpecTest, TheFirstBadParameterOfAllIsNamed) {
  const absl::Status status = ValidateAll({AdamW({4}), Muon({4})}, TestMesh());
  EXPECT_THAT(std::string(status.message()), HasSubstr("parameter \"w\""));
}

TEST(ParameterSpecTest, BlocksSumToTheirDimension) {
  ParameterSpec spec = Muon({6, 9});
  spec.blocks = {.dimension = 0, .sizes = {1, 2, 3}};
  ExpectValid(spec);
  spec.blocks = {.dimension = 1, .sizes = {4, 5}};
  ExpectValid(spec);
  spec.blocks = {.dimension = 0, .sizes = {1, 2}};
  ExpectInvalid(spec,
                "parameter \"w\": blocks.sizes: want a sum of 6, the size of "
                "dimension 0, got 3 from [1,2]");
  spec.blocks = {.dimension = 1, .sizes = {9, 1}};
  ExpectInvalid(spec, "sum to 9, the size of dimension 1, got [9,1]");
  spec.blocks = {.dimension = 0, .sizes = {6, 0}};
  ExpectInvalid(spec, "want sizes of at least 1");
  const int64_t huge = std::numeric_limits<int64_t>::max();
  spec.blocks = {.dimension = 0, .sizes = {huge, huge, 8}};
  ExpectInvalid(spec, "want sizes of at least 1 that sum to 6");
}

TEST(ParameterSpecTest, BlocksOfABankAreThoseOfEachMatrix) {
  ParameterSpec spec = Muon({2, 6, 9});
  spec.blocks = {.dimension = 0, .sizes = {2, 4}};
  ExpectValid(spec);
  spec.blocks = {.dimension = 1, .sizes = {2, 4}};
  ExpectInvalid(spec, "want a sum of 9");
}

TEST(ParameterSpecTest, BlocksAndPaddingSumToTheirDimension) {
  ParameterSpec spec = Muon({6, 9});
  spec.blocks = {.dimension = 0, .sizes = {1, 2}, .padding = 3};
  ExpectValid(spec);
  spec.blocks = {.dimension = 1, .sizes = {}, .padding = 8};
  ExpectValid(spec);
  spec.blocks = {.dimension = 1, .sizes = {4, 5}, .padding = 1};
  ExpectInvalid(spec,
                "blocks.sizes: want sizes of at least 1 that sum to 8, the "
                "size of dimension 1 without its padding of 1, got [4,5]");
  spec.blocks = {.dimension = 1, .sizes = {4}, .padding = 4};
  ExpectInvalid(spec,
                "want a sum of 5, the size of dimension 1 without its padding "
                "of 4, got 4 from [4]");
  spec.blocks = {.dimension = 0, .sizes = {}, .padding = -1};
  ExpectInvalid(spec, "blocks.padding: want >= 0, got -1");
  spec.blocks = {.dimension = 0, .sizes = {}, .padding = 6};
  ExpectInvalid(spec,
                "blocks.padding: want less than 6, the size of dimension 0, "
                "got 6");
  ParameterSpec vector = AdamW({6});
  vector.blocks.padding = 2;
  ExpectInvalid(vector,
                "blocks: want none for adamw, got [] and a padding of 2");
}

TEST(ParameterSpecTest, BlocksHaveADimensionAndAMatrix) {
  ParameterSpec spec = Muon({6, 9});
  spec.blocks.dimension = 2;
  ExpectInvalid(spec, "blocks.dimension: want 0 or 1, got 2");
  ParameterSpec vector = AdamW({6});
  vector.blocks.sizes = {6};
  ExpectInvalid(vector, "blocks: want none for adamw, got [6]");
}

TEST(ParameterSpecTest, OnlyThreeTypesAreTaken) {
  for (const DataType dtype :
       {DataType::kBF16, DataType::kF16, DataType::kF32}) {
    ParameterSpec spec = Muon({2, 3});
    spec.dtype = dtype;
    spec.gradient_dtype = dtype;
    ExpectValid(spec);
  }
  for (const DataType dtype :
       {DataType::kF64, DataType::kI32, DataType::kI64, DataType::kU8}) {
    ParameterSpec spec = Muon({2, 3});
    spec.dtype = dtype;
    ExpectInvalid(spec, "parameter \"w\": dtype: want f32, bf16 or f16, got ");
    spec.dtype = DataType::kF32;
    spec.gradient_dtype = dtype;
    ExpectInvalid(spec, "gradient_dtype: want f32, bf16 or f16, got ");
  }
}

TEST(ParameterSpecTest, AccumulationIsInF32) {
  ParameterSpec spec = Muon({2, 3});
  spec.gradient_mode = GradientMode::kAccumulate;
  ExpectValid(spec);
  spec.gradient_dtype = DataType::kBF16;
  ExpectInvalid(spec, "gradient_dtype: want f32 to accumulate, got bf16");
}

TEST(ParameterSpecTest, OtherFieldsHaveTheirRanges) {
  ParameterSpec spec = Muon({2, 3});
  spec.fan_out_dimension = 2;
  ExpectInvalid(spec, "fan_out_dimension: want 0 or 1, got 2");
  spec = Muon({2, 3});
  for (const double scale : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    spec.learning_rate_scale = scale;
    ExpectInvalid(spec, "learning_rate_scale: want finite and > 0, got ");
  }
  spec = Muon({2, 3});
  spec.rule = static_cast<Rule>(9);
  ExpectInvalid(spec, "rule: want muon or adamw, got 9");
}

TEST(ParameterSpecTest, AnUnlistedAxisIsShard) {
  ParameterSpec spec = Muon({2, 3});
  spec.roles = {{"tp", AxisRole::kDistinct}};
  EXPECT_EQ(RoleOver(spec, "dp"), AxisRole::kShard);
  EXPECT_EQ(RoleOver(spec, "tp"), AxisRole::kDistinct);
}

TEST(ParameterSpecTest, ARoleOverAnAxisThatTheMeshLacksIsAnError) {
  ParameterSpec spec = Muon({2, 3});
  spec.roles = {{"ep", AxisRole::kShard}};
  ExpectInvalid(spec, "parameter \"w\": roles: no mesh axis \"ep\"");
}

TEST(ParameterSpecTest, EachOfTheSixRolesIsTaken) {
  for (const AxisRole role :
       {AxisRole::kShard, AxisRole::kReplicate, AxisRole::kDistinct,
        AxisRole::kDuplicate, AxisRole::kPartial, AxisRole::kSlice}) {
    ParameterSpec spec = AdamW({6});
    spec.roles = {{"tp", role}};
    ExpectValid(spec);
  }
  ParameterSpec spec = AdamW({6});
  spec.roles = {{"tp", static_cast<AxisRole>(6)}};
  ExpectInvalid(spec,
                "parameter \"v\": roles: want one of the six roles over axis "
                "\"tp\", got 6");
}

TEST(ParameterSpecTest, AMuonMatrixIsCutOnlyIfThatIsAskedForByName) {
  ParameterSpec spec = Muon({2, 3});
  spec.roles = {{"tp", AxisRole::kSlice}};
  ExpectInvalid(spec,
                "parameter \"w\": roles: slice over axis \"tp\" cuts a muon "
                "matrix");
  spec.blockwise = true;
  ExpectValid(spec);
  spec.roles = {{"tp", AxisRole::kDistinct}};
  ExpectInvalid(spec,
                "blockwise: want an axis over which the parameter is "
                "slice, got none");
  ParameterSpec vector = AdamW({6});
  vector.roles = {{"tp", AxisRole::kSlice}};
  vector.blockwise = true;
  ExpectInvalid(vector,
                "blockwise: want it of a muon parameter only, got adamw");
}

TEST(ParameterSpecTest, CoordinatesAreAscendingAndOfTheAxis) {
  for (const AxisRole role : {AxisRole::kDistinct, AxisRole::kPartial}) {
    ParameterSpec spec = AdamW({6});
    spec.roles = {{"tp", role}};
    for (const std::vector<int32_t>& good :
         {std::vector<int32_t>{0}, {3}, {0, 3}, {0, 1, 2, 3}}) {
      spec.coordinates = {{"tp", good}};
      ExpectValid(spec);
    }
    for (const std::vector<int32_t>& bad :
         {std::vector<int32_t>{4}, {-1}, {1, 0}, {2, 2}, {0, 4}}) {
      spec.coordinates = {{"tp", bad}};
      ExpectInvalid(spec,
                    "coordinates: want ascending ones in [0, 4) of axis "
                    "\"tp\", got [");
    }
    spec.coordinates = {{"tp", {}}};
    ExpectInvalid(spec,
                  "coordinates: want at least one of axis \"tp\", got []");
    spec.coordinates = {{"ep", {0}}};
    ExpectInvalid(spec, "coordinates: no mesh axis \"ep\"");
  }
}

TEST(ParameterSpecTest, OnlyDistinctAndPartialAxesHaveCoordinates) {
  for (const AxisRole role : {AxisRole::kShard, AxisRole::kReplicate,
                              AxisRole::kDuplicate, AxisRole::kSlice}) {
    ParameterSpec spec = AdamW({6});
    spec.roles = {{"tp", role}};
    spec.coordinates = {{"tp", {0}}};
    ExpectInvalid(spec,
                  "coordinates: want axis \"tp\" to be distinct or "
                  "partial, got " +
                      std::string(AxisRoleName(role)));
  }
}

TEST(ParameterSpecTest, ParametersLiveAtTheirCoordinates) {
  const Mesh mesh = TestMesh();
  ParameterSpec spec = AdamW({6});
  EXPECT_TRUE(LivesOn(spec, mesh, Rank(5)));
  spec.roles = {{"tp", AxisRole::kPartial}, {"dp", AxisRole::kDistinct}};
  spec.coordinates = {{"tp", {0, 3}}, {"dp", {1}}};
  std::vector<int32_t> at;
  for (int32_t rank = 0; rank < mesh.size(); ++rank) {
    if (LivesOn(spec, mesh, Rank(rank))) at.push_back(rank);
  }
  EXPECT_EQ(at, (std::vector<int32_t>{4, 7}));
}

// All parameters agree on whether the ranks along an axis have the same data.
TEST(ParameterSpecTest, RolesThatContradictOneAnotherAreRefused) {
  for (const AxisRole same :
       {AxisRole::kDuplicate, AxisRole::kPartial, AxisRole::kSlice}) {
    for (const AxisRole own : {AxisRole::kShard, AxisRole::kReplicate}) {
      ParameterSpec one = AdamW({6});
      one.roles = {{"tp", same}};
      ParameterSpec other = Muon({2, 3});
      other.roles = {{"tp", own}};
      for (const auto& specs : {std::vector<ParameterSpec>{one, other},
                                std::vector<ParameterSpec>{other, one}}) {
        const absl::Status status = ValidateAll(specs, TestMesh());
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(std::string(status.message()),
                  "parameter \"v\": roles: " + std::string(AxisRoleName(same)) +
                      " over axis \"tp\" says that its ranks have the same "
                      "data, but parameter \"w\" is " +
                      std::string(AxisRoleName(own)) +
                      " over it, which says that they have not");
      }
    }
    ParameterSpec one = AdamW({6});
    one.roles = {{"tp", same}};
    EXPECT_THAT(
        std::string(ValidateAll({one, Muon({2, 3})}, TestMesh()).message()),
        HasSubstr("\"w\" is shard over it, as one that is not listed"));
    ParameterSpec apart = Muon({2, 3});
    apart.roles = {{"tp", AxisRole::kDistinct}};
    EXPECT_TRUE(ValidateAll({one, apart}, TestMesh()).ok());
  }
}

TEST(ParameterSpecTest, NamesInMessagesAreEscaped) {
  ParameterSpec spec = Muon({2});
  spec.name = "a\nb\"";
  ExpectInvalid(spec, "parameter \"a\\nb\\\"\": shape");
}

TEST(ParameterSpecTest, ValuesOutsideAnEnumHaveAName) {
  EXPECT_EQ(RuleName(Rule::kMuon), "muon");
  EXPECT_EQ(RuleName(static_cast<Rule>(9)), "unknown");
  EXPECT_EQ(AxisRoleName(AxisRole::kSlice), "slice");
  EXPECT_EQ(AxisRoleName(static_cast<AxisRole>(9)), "unknown");
}

}  // namespace
}  // namespace muonshard
