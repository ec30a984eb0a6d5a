#include "topology/host_map.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Rank> Ranks(const std::vector<int>& numbers) {
  std::vector<Rank> ranks;
  for (const int number : numbers) ranks.push_back(Rank(number));
  return ranks;
}

TEST(HostMap, HostsComeInOrderOfFirstAppearance) {
  const HostMap map = HostMap::FromHostIds({"b", "a", "b", "c"});
  EXPECT_EQ(map.size(), 4);
  EXPECT_EQ(map.host_count(), 3);
  EXPECT_EQ(map.host_id(0), "b");
  EXPECT_EQ(map.host_id(1), "a");
  EXPECT_EQ(map.host_id(2), "c");
  EXPECT_EQ(map.host(Rank(2)), 0);
  EXPECT_EQ(map.host(Rank(3)), 2);
}

TEST(HostMap, LanesCountTheRanksOfAHostInRankOrder) {
  const HostMap map = HostMap::FromHostIds({"b", "a", "b", "a", "b"});
  EXPECT_EQ(map.lane(Rank(0)), 0);
  EXPECT_EQ(map.lane(Rank(1)), 0);
  EXPECT_EQ(map.lane(Rank(2)), 1);
  EXPECT_EQ(map.lane(Rank(3)), 1);
  EXPECT_EQ(map.lane(Rank(4)), 2);
  EXPECT_THAT(map.lanes_of(0), ElementsAre(Rank(0), Rank(2), Rank(4)));
  EXPECT_THAT(map.lanes_of(1), ElementsAre(Rank(1), Rank(3)));
}

TEST(HostMap, NoRanksMakeNoHosts) {
  const HostMap map = HostMap::FromHostIds({});
  EXPECT_EQ(map.size(), 0);
  EXPECT_EQ(map.host_count(), 0);
}

TEST(HostMap, MapsAreEqualExactlyIfTheIdentitiesAre) {
  EXPECT_EQ(HostMap::FromHostIds({"a", "b"}), HostMap::FromHostIds({"a", "b"}));
  EXPECT_NE(HostMap::FromHostIds({"a", "b"}), HostMap::FromHostIds({"a", "a"}));
  EXPECT_NE(HostMap::FromHostIds({"a", "b"}), HostMap::FromHostIds({"a", "c"}));
}

TEST(HostMapFactor, AGroupOnOneHostIsOneByN) {
  const HostMap map = HostMap::FromHostIds({"a", "b", "a", "a"});
  const auto grid = map.Factor(Ranks({0, 2, 3}));
  ASSERT_TRUE(grid.ok()) << grid.status();
  EXPECT_EQ(grid->hosts, 1);
  EXPECT_EQ(grid->lanes, 3);
  EXPECT_EQ(grid->ranks, Ranks({0, 2, 3}));
}

TEST(HostMapFactor, OneRankPerHostIsNByOne) {
  const HostMap map = HostMap::FromHostIds({"a", "a", "b", "b", "c", "c"});
  const auto grid = map.Factor(Ranks({1, 2, 5}));
  ASSERT_TRUE(grid.ok()) << grid.status();
  EXPECT_EQ(grid->hosts, 3);
  EXPECT_EQ(grid->lanes, 1);
  EXPECT_EQ(grid->ranks, Ranks({1, 2, 5}));
}

TEST(HostMapFactor, EqualNumbersOnEachHostAreAGrid) {
  // Placed round robin, so that rank order alone would not give the grid.
  const HostMap map = HostMap::FromHostIds({"a", "b", "a", "b", "a", "b"});
  const auto grid = map.Factor(Ranks({0, 1, 4, 5}));
  ASSERT_TRUE(grid.ok()) << grid.status();
  EXPECT_EQ(grid->hosts, 2);
  EXPECT_EQ(grid->lanes, 2);
  EXPECT_EQ(grid->at(0, 0), Rank(0));
  EXPECT_EQ(grid->at(0, 1), Rank(4));
  EXPECT_EQ(grid->at(1, 0), Rank(1));
  EXPECT_EQ(grid->at(1, 1), Rank(5));
}

TEST(HostMapFactor, TheOrderOfTheGroupHasNoEffect) {
  const HostMap map = HostMap::FromHostIds({"a", "b", "a", "b"});
  const auto grid = map.Factor(Ranks({3, 2, 1, 0}));
  ASSERT_TRUE(grid.ok()) << grid.status();
  EXPECT_EQ(grid->ranks, Ranks({0, 2, 1, 3}));
}

TEST(HostMapFactor, HostsOfUnequalSizeFactorWhereTheGroupIsEven) {
  const HostMap map = HostMap::FromHostIds({"a", "a", "a", "b"});
  const auto grid = map.Factor(Ranks({2, 3}));
  ASSERT_TRUE(grid.ok()) << grid.status();
  EXPECT_EQ(grid->hosts, 2);
  EXPECT_EQ(grid->lanes, 1);
}

TEST(HostMapFactor, UnequalNumbersAreRefusedWithTheHostsNamed) {
  std::vector<std::string> host_ids(8, "a");
  host_ids.insert(host_ids.end(), 4, "b");
  const HostMap map = HostMap::FromHostIds(host_ids);
  std::vector<Rank> everyone;
  for (int rank = 0; rank < 12; ++rank) everyone.push_back(Rank(rank));
  const absl::Status status = map.Factor(everyone).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("host \"a\" has 8 ranks of the group, "
                        "host \"b\" has 4"));
}

TEST(HostMapFactor, TheFirstHostThatDiffersIsNamed) {
  const HostMap map = HostMap::FromHostIds({"a", "b", "c", "c"});
  const absl::Status status = map.Factor(Ranks({0, 1, 2, 3})).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("host \"a\" has 1 rank of the group, "
                        "host \"c\" has 2"));
}

TEST(HostMapFactor, AGroupThatIsNoneIsRefused) {
  const HostMap map = HostMap::FromHostIds({"a", "b"});
  EXPECT_EQ(map.Factor({}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(map.Factor(Ranks({0, 2})).status().message()),
              HasSubstr("rank 2 of the group: want a rank below 2"));
  EXPECT_THAT(std::string(map.Factor(Ranks({-1, 0})).status().message()),
              HasSubstr("rank -1 of the group"));
  EXPECT_THAT(std::string(map.Factor(Ranks({1, 0, 1})).status().message()),
              HasSubstr("rank 1 is in the group twice"));
}

}  // namespace
}  // namespace muonshard
