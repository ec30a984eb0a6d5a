#include "topology/mesh.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<int> Numbers(const std::vector<Rank>& ranks) {
  std::vector<int> numbers;
  for (const Rank rank : ranks) numbers.push_back(ToInt(rank));
  return numbers;
}

Mesh MustParse(const char* text) {
  absl::StatusOr<Mesh> mesh = Mesh::Parse(text);
  EXPECT_TRUE(mesh.ok()) << mesh.status();
  return mesh.value_or(Mesh());
}

// The definition of a group, rank by rank.
std::vector<Rank> GroupByDefinition(const Mesh& mesh, Rank rank,
                                    const std::vector<int>& axes) {
  const std::vector<int32_t> home = mesh.Coordinates(rank);
  std::vector<Rank> group;
  for (int32_t other = 0; other < mesh.size(); ++other) {
    const std::vector<int32_t> there = mesh.Coordinates(Rank(other));
    bool is_member = true;
    for (size_t i = 0; i < home.size(); ++i) {
      const bool varies =
          std::count(axes.begin(), axes.end(), static_cast<int>(i)) > 0;
      if (!varies && there[i] != home[i]) is_member = false;
    }
    if (is_member) group.push_back(Rank(other));
  }
  return group;
}

TEST(Mesh, EmptyTextIsOneRankWithoutAxes) {
  const Mesh mesh = MustParse("");
  EXPECT_EQ(mesh.size(), 1);
  EXPECT_THAT(mesh.axes(), IsEmpty());
  EXPECT_EQ(mesh.ToString(), "");
  EXPECT_THAT(mesh.Coordinates(Rank(0)), IsEmpty());
  EXPECT_EQ(mesh.RankOf({}), Rank(0));
  EXPECT_EQ(mesh, Mesh());
}

TEST(Mesh, KeepsNamesOrderAndDegrees) {
  const Mesh mesh = MustParse("pp=2,moe_sharding=3,ep=8");
  EXPECT_THAT(mesh.axes(),
              ElementsAre(MeshAxis{"pp", 2}, MeshAxis{"moe_sharding", 3},
                          MeshAxis{"ep", 8}));
  EXPECT_EQ(mesh.size(), 48);
}

TEST(Mesh, ParseReadsWhatToStringWrites) {
  for (const char* text : {"", "dp=1", "pp=2,dp=4", "a=3,B_2=5,_c=1"}) {
    const Mesh mesh = MustParse(text);
    EXPECT_EQ(mesh.ToString(), text);
    EXPECT_EQ(MustParse(mesh.ToString().c_str()), mesh);
  }
}

TEST(Mesh, LastAxisIsTheFastest) {
  const Mesh mesh = MustParse("pp=2,dp=3");
  EXPECT_THAT(mesh.Coordinates(Rank(0)), ElementsAre(0, 0));
  EXPECT_THAT(mesh.Coordinates(Rank(1)), ElementsAre(0, 1));
  EXPECT_THAT(mesh.Coordinates(Rank(3)), ElementsAre(1, 0));
  EXPECT_THAT(mesh.Coordinates(Rank(5)), ElementsAre(1, 2));
}

TEST(Mesh, RankOfIsTheInverseOfCoordinates) {
  const Mesh mesh = MustParse("a=3,b=1,c=4,d=2");
  for (int32_t rank = 0; rank < mesh.size(); ++rank) {
    EXPECT_EQ(mesh.RankOf(mesh.Coordinates(Rank(rank))), Rank(rank));
  }
}

TEST(Mesh, AGroupOverTheLastAxisIsARunOfRanks) {
  const Mesh mesh = MustParse("pp=2,dp=4");
  const std::vector<int> axes = {1};
  EXPECT_THAT(Numbers(mesh.GroupOf(Rank(6), axes)), ElementsAre(4, 5, 6, 7));
}

TEST(Mesh, AGroupOverTheFirstAxisIsStrided) {
  const Mesh mesh = MustParse("pp=2,dp=4");
  const std::vector<int> axes = {0};
  EXPECT_THAT(Numbers(mesh.GroupOf(Rank(6), axes)), ElementsAre(2, 6));
}

TEST(Mesh, AGroupOverOuterAxesLeavesTheInnerOneFixed) {
  const Mesh mesh = MustParse("a=2,b=2,c=2");
  const std::vector<int> axes = {0, 1};
  EXPECT_THAT(Numbers(mesh.GroupOf(Rank(5), axes)), ElementsAre(1, 3, 5, 7));
}

TEST(Mesh, AGroupOverNoAxisIsTheRankAlone) {
  EXPECT_THAT(Numbers(MustParse("pp=2,dp=4").GroupOf(Rank(6), {})),
              ElementsAre(6));
}

TEST(Mesh, OrderAndRepetitionOfAxesHaveNoEffect) {
  const Mesh mesh = MustParse("a=2,b=3,c=2");
  const std::vector<int> axes = {0, 2};
  const std::vector<int> shuffled = {2, 0, 2};
  EXPECT_EQ(mesh.GroupOf(Rank(7), axes), mesh.GroupOf(Rank(7), shuffled));
}

TEST(Mesh, GroupsOverAnyAxesPartitionTheRanksAsDefined) {
  const Mesh mesh = MustParse("a=3,b=2,c=1,d=4");
  for (unsigned subset = 0; subset < 16; ++subset) {
    std::vector<int> axes;
    for (int axis = 0; axis < 4; ++axis) {
      if ((subset >> axis & 1u) != 0) axes.push_back(axis);
    }
    std::vector<int> times_seen(static_cast<size_t>(mesh.size()), 0);
    int last_first = -1;
    for (const std::vector<Rank>& group : mesh.Groups(axes)) {
      EXPECT_LT(last_first, ToInt(group.front()));
      last_first = ToInt(group.front());
      for (const Rank rank : group) {
        ++times_seen[static_cast<size_t>(ToInt(rank))];
        EXPECT_EQ(GroupByDefinition(mesh, rank, axes), group);
        EXPECT_EQ(mesh.GroupOf(rank, axes), group);
      }
    }
    EXPECT_THAT(times_seen, ::testing::Each(1)) << "axes subset " << subset;
  }
}

TEST(Mesh, AxesAreFoundByName) {
  const Mesh mesh = MustParse("pp=2,dp=4,ep=2");
  EXPECT_EQ(mesh.AxisIndex("dp").value_or(-1), 1);
  const std::vector<std::string> names = {"ep", "pp"};
  const auto indices = mesh.AxisIndices(names);
  ASSERT_TRUE(indices.ok()) << indices.status();
  EXPECT_THAT(*indices, ElementsAre(2, 0));
}

TEST(Mesh, AnUnknownAxisIsAnErrorThatListsTheKnownOnes) {
  const Mesh mesh = MustParse("pp=2,dp=4");
  const absl::Status status = mesh.AxisIndex("tp").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("\"tp\""), HasSubstr("pp, dp")));
  const std::vector<std::string> names = {"dp", "tp"};
  EXPECT_EQ(mesh.AxisIndices(names).status(), status);
  EXPECT_THAT(std::string(Mesh().AxisIndex("tp").status().message()),
              HasSubstr("the mesh has no axes"));
}

TEST(Mesh, AnotherSizeIsAnErrorThatNamesMeshAndBothSizes) {
  const Mesh mesh = MustParse("pp=2,ep=8");
  EXPECT_TRUE(mesh.CheckSize(16).ok());
  const absl::Status status = mesh.CheckSize(8);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "mesh pp=2,ep=8 has 16 ranks, want 8");
  EXPECT_EQ(Mesh().CheckSize(2).message(),
            "mesh without axes has 1 rank, want 2");
}

struct BadMesh {
  const char* text;
  const char* want_in_message;
};

class BadMeshTest : public ::testing::TestWithParam<BadMesh> {};

TEST_P(BadMeshTest, IsRefusedWithTheReason) {
  const absl::Status status = Mesh::Parse(GetParam().text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(GetParam().want_in_message));
}

INSTANTIATE_TEST_SUITE_P(
    Mesh, BadMeshTest,
    ::testing::Values(
        BadMesh{"dp", "\"dp\": want NAME=DEGREE"},
        BadMesh{"dp=2,", "\"\": want NAME=DEGREE"}, BadMesh{"=2", "no name"},
        BadMesh{"d p=2", "\"d p\": want letters, digits and underscores"},
        BadMesh{"dp=2, pp=2", "got ' '"}, BadMesh{"dp=", "got \"\""},
        BadMesh{"dp=two", "got \"two\""}, BadMesh{"dp=+2", "got \"+2\""},
        BadMesh{"dp= 2", "got \" 2\""}, BadMesh{"dp=2=2", "got \"2=2\""},
        BadMesh{"dp=-1", "got \"-1\""},
        BadMesh{"dp=99999999999", "got \"99999999999\""},
        BadMesh{"dp=0", "\"dp\": want a degree of at least 1, got 0"},
        BadMesh{"dp=2,pp=2,dp=4", "\"dp\" is given twice"},
        BadMesh{"a=1024,b=2048", "\"b\" of degree 2048 makes 2097152 ranks"},
        BadMesh{"a=2,b=2147483647", "makes 4294967294 ranks"}));

TEST(Mesh, CreateRefusesANegativeDegree) {
  const absl::Status status = Mesh::Create({{"dp", -2}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("got -2"));
}

TEST(Mesh, TheLargestSizeIsAccepted) {
  EXPECT_EQ(MustParse("a=1024,b=1024").size(), Mesh::kSizeMax);
}

}  // namespace
}  // namespace muonshard
