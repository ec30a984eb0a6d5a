#include "optimizer/unsharded/gradient_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::IsOk;
using ::testing::Pair;
using testing::StatusIs;
using Ranks = std::vector<std::vector<int32_t>>;

ParameterSpec Spec(std::map<std::string, AxisRole> roles) {
  ParameterSpec spec;
  spec.name = "weight";
  spec.shape = {4};
  spec.roles = std::move(roles);
  return spec;
}

// Ranks by host, as "0011" or "ABBA".
HostMap Hosts(const std::string& of_rank) {
  std::vector<std::string> ids;
  for (const char host : of_rank) ids.emplace_back(1, host);
  return HostMap::FromHostIds(ids);
}

std::vector<GradientPlace> Places(const std::vector<ParameterSpec>& specs,
                                  const std::string& mesh,
                                  const std::string& hosts,
                                  Hierarchy hierarchy = Hierarchy::kAuto) {
  const auto places =
      GradientPlaces(specs, *Mesh::Parse(mesh), Hosts(hosts), hierarchy);
  EXPECT_THAT(places, IsOk());
  return places.ok() ? *places : std::vector<GradientPlace>();
}

Ranks Groups(const GradientPlace& place) {
  Ranks groups;
  for (const std::vector<Rank>& group : place.groups) {
    groups.emplace_back();
    for (const Rank rank : group) groups.back().push_back(ToInt(rank));
  }
  return groups;
}

std::vector<int32_t> Numbers(const std::vector<Rank>& ranks) {
  std::vector<int32_t> numbers;
  for (const Rank rank : ranks) numbers.push_back(ToInt(rank));
  return numbers;
}

TEST(GradientPlacesTest, AShardedParameterHasOnePlaceAndOneGroup) {
  const auto places = Places({Spec({})}, "data=3", "000");
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].parameter, 0);
  EXPECT_THAT(places[0].coordinates, IsEmpty());
  EXPECT_EQ(places[0].divisor, 3);
  EXPECT_EQ(Groups(places[0]), (Ranks{{0, 1, 2}}));
  EXPECT_THAT(places[0].group_lanes, ElementsAre(0));
  EXPECT_EQ(places[0].replica_lanes, 0);
  EXPECT_THAT(places[0].duplicates, IsEmpty());
}

TEST(GradientPlacesTest, ReplicasAreGroupsOfOnePlace) {
  const auto places =
      Places({Spec({{"dp", AxisRole::kReplicate}})}, "data=2,dp=3", "000000");
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(Groups(places[0]), (Ranks{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(places[0].divisor, 6);
}

TEST(GradientPlacesTest, DistinctAndSliceCoordinatesArePlacesOfTheirOwn) {
  const auto places =
      Places({Spec({{"ep", AxisRole::kDistinct}, {"tp", AxisRole::kSlice}}),
              Spec({{"tp", AxisRole::kDuplicate}, {"ep", AxisRole::kShard}})},
             "ep=2,data=2,tp=2", "00000000");
  ASSERT_EQ(places.size(), 5u);
  EXPECT_THAT(places[1].coordinates, ElementsAre(Pair("ep", 0), Pair("tp", 1)));
  EXPECT_EQ(Groups(places[1]), (Ranks{{1, 3}}));
  EXPECT_THAT(places[2].coordinates, ElementsAre(Pair("ep", 1), Pair("tp", 0)));
  EXPECT_EQ(Groups(places[2]), (Ranks{{4, 6}}));
  // Experts divide by ep as well, because the dense parameter is averaged over
  // it; nobody is averaged over tp.
  EXPECT_EQ(places[1].divisor, 4);
  EXPECT_EQ(places[4].parameter, 1);
  EXPECT_EQ(places[4].divisor, 4);
}

TEST(GradientPlacesTest, OneDuplicateCountsAndTheOthersAreNamed) {
  const auto places =
      Places({Spec({{"tp", AxisRole::kDuplicate}})}, "tp=3,data=2", "000000");
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(Groups(places[0]), (Ranks{{0, 1}}));
  EXPECT_THAT(Numbers(places[0].duplicates), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(Numbers(RanksOf(places[0])), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(places[0].divisor, 2);
}

TEST(GradientPlacesTest, PartsAreReplicasThatDivideNothing) {
  ParameterSpec tied = Spec({{"pp", AxisRole::kPartial}});
  tied.coordinates["pp"] = {0, 3};
  const auto places = Places({tied}, "pp=4,data=2", "00000000");
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(Groups(places[0]), (Ranks{{0, 1}, {6, 7}}));
  EXPECT_EQ(places[0].divisor, 2);
  EXPECT_THAT(Numbers(RanksOf(places[0])), ElementsAre(0, 1, 6, 7));
}

TEST(GradientPlacesTest, AStageOfItsOwnIsOnePlaceOfADistinctAxis) {
  ParameterSpec stage = Spec({{"pp", AxisRole::kDistinct}});
  stage.coordinates["pp"] = {1};
  const auto places = Places({stage}, "pp=2,data=2", "0000");
  ASSERT_EQ(places.size(), 1u);
  EXPECT_THAT(places[0].coordinates, ElementsAre(Pair("pp", 1)));
  EXPECT_EQ(Groups(places[0]), (Ranks{{2, 3}}));
}

TEST(GradientPlacesTest, HostsComeBeforeRanks) {
  const auto places = Places({Spec({})}, "data=4", "ABAB");
  EXPECT_EQ(Groups(places[0]), (Ranks{{0, 2, 1, 3}}));
  EXPECT_THAT(places[0].group_lanes, ElementsAre(2));
  const auto off = Places({Spec({})}, "data=4", "ABAB", Hierarchy::kOff);
  EXPECT_EQ(Groups(off[0]), (Ranks{{0, 2, 1, 3}}));
  EXPECT_THAT(off[0].group_lanes, ElementsAre(0));
}

TEST(GradientPlacesTest, GroupsThatDoNotFactorAreFlat) {
  for (const Hierarchy hierarchy : {Hierarchy::kOn, Hierarchy::kAuto}) {
    for (const std::string hosts : {"AAABBC", "AAAAAA", "ABCDEF", "AAAABB"}) {
      const auto places = Places({Spec({})}, "data=6", hosts, hierarchy);
      EXPECT_THAT(places[0].group_lanes, ElementsAre(0)) << hosts;
    }
    for (const std::string hosts : {"AAABBB", "ABABAB"}) {
      const auto places = Places({Spec({})}, "data=6", hosts, hierarchy);
      EXPECT_THAT(places[0].group_lanes, ElementsAre(3)) << hosts;
    }
    const auto three = Places({Spec({})}, "data=6", "AABBCC", hierarchy);
    EXPECT_THAT(three[0].group_lanes, ElementsAre(2));
  }
}

TEST(GradientPlacesTest, ReplicasHaveLevelsOfTheirOwn) {
  const std::vector<ParameterSpec> specs = {
      Spec({{"dp", AxisRole::kReplicate}})};
  // Groups on one host each, replicas with one rank on each of two hosts.
  auto places = Places(specs, "dp=2,data=2", "AABB");
  EXPECT_THAT(places[0].group_lanes, ElementsAre(0, 0));
  EXPECT_EQ(places[0].replica_lanes, 0);
  // Four replicas on two hosts; one rank in each group and host.
  places = Places(specs, "dp=4,data=2", "AAAABBBB");
  EXPECT_EQ(Groups(places[0]), (Ranks{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(places[0].replica_lanes, 2);
  // Unlike groups of one parameter: one host, two, one.
  places = Places(specs, "dp=3,data=4", "AAAAAABBBBBB");
  EXPECT_THAT(places[0].group_lanes, ElementsAre(0, 2, 0));
}

void ExpectNoOrder(const std::string& mesh, const std::string& hosts,
                   AxisRole role, const std::string& text) {
  const auto places = GradientPlaces({Spec({{"dp", role}})}, *Mesh::Parse(mesh),
                                     Hosts(hosts), Hierarchy::kAuto);
  EXPECT_THAT(places,
              StatusIs(absl::StatusCode::kFailedPrecondition, "\"weight\""));
  EXPECT_THAT(places, StatusIs(absl::StatusCode::kFailedPrecondition, text));
}

TEST(GradientPlacesTest, WhatHasNoOneOrderIsRefused) {
  // Replica 0 has hosts A and B, replica 1 has A twice: A A first, then A B.
  ExpectNoOrder("dp=2,data=2", "ABAA", AxisRole::kReplicate, "another order");
  // First members on A A B B, second members on A B B B.
  ExpectNoOrder("dp=4,data=2", "AAABBBBB", AxisRole::kReplicate,
                "have 0 lanes, those at place 0 have 2");
}

TEST(GradientPlacesTest, DuplicatesThatLieUnlikeFoldInRankOrder) {
  const std::vector<ParameterSpec> specs = {
      Spec({{"tp", AxisRole::kDuplicate}})};
  // Alike: both copies on A B A B.
  auto places = Places(specs, "tp=2,data=4", "ABABABAB");
  EXPECT_EQ(Groups(places[0]), (Ranks{{0, 2, 1, 3}}));
  EXPECT_THAT(places[0].group_lanes, ElementsAre(2));
  // One copy on two hosts with two lanes each, the other on one host.
  places = Places(specs, "tp=2,data=4", "ABABAAAA");
  EXPECT_EQ(Groups(places[0]), (Ranks{{0, 1, 2, 3}}));
  EXPECT_THAT(places[0].group_lanes, ElementsAre(0));
  // The same levels, another order.
  places = Places(specs, "tp=2,data=4", "ABABAABB");
  EXPECT_EQ(Groups(places[0]), (Ranks{{0, 1, 2, 3}}));
  EXPECT_THAT(places[0].group_lanes, ElementsAre(0));
  // The same order, other levels; alike without levels.
  places = Places(specs, "tp=2,data=4", "AABBCCCC");
  EXPECT_THAT(places[0].group_lanes, ElementsAre(0));
  places = Places(specs, "tp=2,data=4", "ABABCDCD", Hierarchy::kOff);
  EXPECT_EQ(Groups(places[0]), (Ranks{{0, 2, 1, 3}}));
}

TEST(GradientPlacesTest, HostsOfAnotherMeshAreRefused) {
  EXPECT_THAT(GradientPlaces({Spec({})}, *Mesh::Parse("data=2"), Hosts("AAA"),
                             Hierarchy::kOff),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "each of the 2 ranks of the mesh, got 3"));
}

}  // namespace
}  // namespace muonshard
