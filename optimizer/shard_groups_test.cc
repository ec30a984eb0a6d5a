#include "optimizer/shard_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/host_map.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using ::testing::ElementsAre;

RankGroups TwoGroups() {
  RankGroups groups;
  groups.groups = {{Rank{0}, Rank{1}, Rank{2}}, {Rank{3}, Rank{4}, Rank{5}}};
  return groups;
}

TEST(HostsOfPlacesTest, RanksOfOneHostShareTheNumberThatIsNext) {
  const HostMap hosts = HostMap::FromHostIds({"c", "b", "c", "a", "c", "a"});
  EXPECT_THAT(HostsOfPlaces(TwoGroups(), hosts), ElementsAre(0, 1, 0));
}

TEST(HostsOfPlacesTest, WhereGroupsDifferEachPlaceIsAHostOfItsOwn) {
  const HostMap hosts = HostMap::FromHostIds({"a", "a", "a", "a", "a", "b"});
  EXPECT_THAT(HostsOfPlaces(TwoGroups(), hosts), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace muonshard
