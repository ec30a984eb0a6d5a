#include "optimizer/parameter_places.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muonshard {
namespace {

// The place of each rank of `mesh`; -1 where the parameter does not live.
std::vector<int64_t> PlacesOf(const ParameterPlaces& places, const Mesh& mesh) {
  std::vector<int64_t> result;
  for (int32_t r = 0; r < mesh.size(); ++r) {
    const std::optional<size_t> place =
        places.PlaceOf(mesh.Coordinates(Rank{r}));
    result.push_back(place.has_value() ? static_cast<int64_t>(*place) : -1);
  }
  return result;
}

TEST(ParameterPlacesTest, WithoutAnAxisThatItLivesApartOverThereIsOnePlace) {
  const Mesh mesh = *Mesh::Parse("dp=2,data=3");
  ParameterSpec spec;
  spec.roles["dp"] = AxisRole::kReplicate;
  const ParameterPlaces places(spec, mesh);
  EXPECT_EQ(places.count(), 1u);
  EXPECT_EQ(places.rank_count(), 6);
  EXPECT_EQ(PlacesOf(places, mesh), (std::vector<int64_t>{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(places.Name(0), "");
}

TEST(ParameterPlacesTest, DistinctAndSliceAxesLieApartAndPartialOnesDoNot) {
  const Mesh mesh = *Mesh::Parse("ep=2,pp=2,tp=2");
  ParameterSpec spec;
  spec.roles = {{"ep", AxisRole::kDistinct},
                {"pp", AxisRole::kPartial},
                {"tp", AxisRole::kSlice}};
  const ParameterPlaces places(spec, mesh);
  EXPECT_EQ(places.count(), 4u);
  EXPECT_EQ(places.rank_count(), 2);
  EXPECT_EQ(PlacesOf(places, mesh),
            (std::vector<int64_t>{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(places.Name(0), "ep=0,tp=0");
  EXPECT_EQ(places.Name(1), "ep=0,tp=1");
  EXPECT_EQ(places.Name(2), "ep=1,tp=0");
}

TEST(ParameterPlacesTest, CoordinatesLimitWhereItLives) {
  const Mesh mesh = *Mesh::Parse("pp=4,ep=3");
  ParameterSpec tied;
  tied.roles = {{"pp", AxisRole::kPartial}};
  tied.coordinates = {{"pp", {0, 3}}};
  const ParameterPlaces tied_places(tied, mesh);
  EXPECT_EQ(tied_places.count(), 1u);
  EXPECT_EQ(tied_places.rank_count(), 6);
  EXPECT_EQ(PlacesOf(tied_places, mesh),
            (std::vector<int64_t>{0, 0, 0, -1, -1, -1, -1, -1, -1, 0, 0, 0}));

  ParameterSpec expert;
  expert.roles = {{"pp", AxisRole::kDistinct}, {"ep", AxisRole::kDistinct}};
  expert.coordinates = {{"pp", {1}}, {"ep", {0, 2}}};
  const ParameterPlaces expert_places(expert, mesh);
  EXPECT_EQ(expert_places.count(), 2u);
  EXPECT_EQ(expert_places.rank_count(), 1);
  EXPECT_EQ(
      PlacesOf(expert_places, mesh),
      (std::vector<int64_t>{-1, -1, -1, 0, -1, 1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(expert_places.Name(0), "pp=1,ep=0");
  EXPECT_EQ(expert_places.Name(1), "pp=1,ep=2");
}

// For any choice of roles and coordinates: every place has exactly
// `rank_count` ranks, and a rank has a place exactly where LivesOn says so.
TEST(ParameterPlacesTest, EveryPlaceHasItsRanksAndLivesWhereTheSpecSays) {
  const Mesh mesh = *Mesh::Parse("pp=3,data=2,ep=2");
  const std::vector<AxisRole> roles = {
      AxisRole::kShard,     AxisRole::kReplicate, AxisRole::kDistinct,
      AxisRole::kDuplicate, AxisRole::kPartial,   AxisRole::kSlice};
  for (const AxisRole pp : roles) {
    for (const AxisRole ep : roles) {
      for (const bool limited : {false, true}) {
        ParameterSpec spec;
        spec.roles = {{"pp", pp}, {"ep", ep}};
        if (limited) spec.coordinates = {{"pp", {0, 2}}};
        const ParameterPlaces places(spec, mesh);
        std::map<size_t, int64_t> ranks;
        std::set<std::string> names;
        for (int32_t r = 0; r < mesh.size(); ++r) {
          const auto place = places.PlaceOf(mesh.Coordinates(Rank{r}));
          EXPECT_EQ(place.has_value(), LivesOn(spec, mesh, Rank{r}));
          if (!place.has_value()) continue;
          ++ranks[*place];
          names.insert(places.Name(*place));
        }
        EXPECT_EQ(ranks.size(), places.count());
        EXPECT_EQ(names.size(), places.count());
        for (const auto& [place, count] : ranks) {
          EXPECT_EQ(count, places.rank_count()) << "place " << place;
        }
      }
    }
  }
}

}  // namespace
}  // namespace muonshard
