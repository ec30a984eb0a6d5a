#include "plugins/loopback/model/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "plugins/loopback/model/links.h"
#include "plugins/loopback/outcome.h"

namespace muonshard::loopback {
namespace {

using ::testing::HasSubstr;

Outcome Read(const std::string& text) {
  Network network;
  return ReadNetwork(text, &network);
}

TEST(NetworkTest, EveryKeyIsRead) {
  Network network;
  const Outcome read = ReadNetwork(
      "hosts=512 lanes=8 rack_hosts=16 alpha_ns=1500 lane_alpha_ns=600.5 "
      "lane_gbps=3600 nic_gbps=400 uplink_gbps=3200 gamma_gbps=8000 "
      "algorithm=halving; slow rank=17 factor=2;slow factor=1.5 rank=0;",
      &network);
  ASSERT_TRUE(read.ok()) << read.text;
  EXPECT_EQ(network.hosts, 512);
  EXPECT_EQ(network.lanes, 8);
  EXPECT_EQ(network.ranks(), 4096);
  EXPECT_EQ(network.rack_hosts, 16);
  EXPECT_EQ(network.alpha_ns, 1500);
  EXPECT_EQ(network.lane_alpha_ns, 600.5);
  EXPECT_EQ(network.lane_gbps, 3600);
  EXPECT_EQ(network.nic_gbps, 400);
  EXPECT_EQ(network.uplink_gbps, 3200);
  EXPECT_EQ(network.gamma_gbps, 8000);
  EXPECT_EQ(network.algorithm, Algorithm::kHalving);
  ASSERT_EQ(network.slow.size(), 2u);
  EXPECT_EQ(network.slow[0].rank, 17);
  EXPECT_EQ(network.slow[0].factor, 2);
  EXPECT_EQ(network.slow[1].rank, 0);
  EXPECT_EQ(network.slow[1].factor, 1.5);
}

TEST(NetworkTest, WhatIsNotGivenIsNotInTheWay) {
  Network network;
  ASSERT_TRUE(ReadNetwork("hosts=2 lanes=1", &network).ok());
  EXPECT_EQ(network.algorithm, Algorithm::kAuto);
  const Links links(network);
  for (const double rate : links.Rates()) {
    EXPECT_EQ(rate, std::numeric_limits<double>::infinity());
  }
}

TEST(NetworkTest, EachAlgorithmHasAName) {
  for (const auto& [name, algorithm] :
       {std::pair("auto", Algorithm::kAuto),
        std::pair("ring", Algorithm::kRing),
        std::pair("direct", Algorithm::kDirect)}) {
    Network network;
    ASSERT_TRUE(
        ReadNetwork("hosts=1 lanes=1 algorithm=" + std::string(name), &network)
            .ok());
    EXPECT_EQ(network.algorithm, algorithm);
  }
}

TEST(NetworkTest, WhatIsWrongIsSaidWithWhatIsKnown) {
  const struct {
    const char* text;
    const char* said;
  } cases[] = {
      {"", "want hosts="},
      {"hosts=2", "want lanes="},
      {"hosts=2 lanes", "lanes wants a whole number of at least 1, got \"\""},
      {"hosts=0 lanes=1", "hosts wants a whole number of at least 1"},
      {"hosts=2 lanes=1.5", "lanes wants a whole number"},
      {"hosts=2000000 lanes=1", "hosts wants a whole number"},
      {"hosts=100000 lanes=100", "want at most 1048576 ranks, got 100000"},
      {"hosts=2 lanes=1 nic=4",
       "no key \"nic\"; known: hosts, lanes, rack_hosts, alpha_ns, "
       "lane_alpha_ns, lane_gbps, nic_gbps, uplink_gbps, gamma_gbps, "
       "algorithm"},
      {"hosts=2 lanes=1 hosts=2", "hosts is given twice"},
      {"hosts=2 lanes=1 nic_gbps=0", "nic_gbps wants a positive number"},
      {"hosts=2 lanes=1 nic_gbps=inf", "nic_gbps wants a positive number"},
      {"hosts=2 lanes=1 alpha_ns=-1", "alpha_ns wants a number of nanoseconds"},
      {"hosts=2 lanes=1 alpha_ns=1us",
       "alpha_ns wants a number of nanoseconds, got \"1us\""},
      {"hosts=2 lanes=1 algorithm=tree",
       "algorithm wants one of auto, ring, halving, direct, got \"tree\""},
      {"hosts=2 lanes=1 rack_hosts=0 uplink_gbps=8",
       "rack_hosts wants a whole number of at least 1, got \"0\""},
      {"hosts=2 lanes=1 rack_hosts=1", "want rack_hosts= and uplink_gbps="},
      {"hosts=2 lanes=1 uplink_gbps=1", "want rack_hosts= and uplink_gbps="},
      {"hosts=2 lanes=1; slow rank=2 factor=2", "slow rank 2 is not one of 2"},
      {"hosts=2 lanes=1; slow rank=1", "slow wants factor="},
      {"hosts=2 lanes=1; slow factor=2", "slow wants rank="},
      {"hosts=2 lanes=1; slow rank=1 factor=0.5",
       "factor wants a number of at least 1, got \"0.5\""},
      {"hosts=2 lanes=1; slow rank=1 by=2",
       "no key \"by\"; known: rank, factor"},
      {"hosts=2 lanes=1; slow rank=1 factor=2; slow rank=1 factor=3",
       "rank 1 is slow twice"},
  };
  for (const auto& bad : cases) {
    const Outcome read = Read(bad.text);
    EXPECT_EQ(read.code, MUONSHARD_E_ARGUMENT) << bad.text;
    EXPECT_THAT(read.text, HasSubstr(bad.said));
    EXPECT_THAT(read.text, HasSubstr("loopback network: "));
  }
}

TEST(LinksTest, EveryLinkHasANumberOfItsOwnAndItsRate) {
  Network network;
  ASSERT_TRUE(ReadNetwork("hosts=3 lanes=2 rack_hosts=2 lane_gbps=80 "
                          "nic_gbps=16 uplink_gbps=8 gamma_gbps=160; "
                          "slow rank=5 factor=2",
                          &network)
                  .ok());
  const Links links(network);
  std::vector<double> left = links.Rates();
  ASSERT_EQ(left.size(), links.count());
  // Takes the rate of `link`, once.
  const auto take = [&](size_t link) { return std::exchange(left[link], 0); };
  for (int32_t rank = 0; rank < 6; ++rank) {
    const double slowness = rank == 5 ? 2 : 1;
    EXPECT_EQ(links.SlownessOf(rank), slowness);
    for (const Links::Port port : {Links::kLaneOut, Links::kLaneIn}) {
      EXPECT_EQ(take(links.PortOf(rank, port)), 10 / slowness);
    }
    for (const Links::Port port : {Links::kNicOut, Links::kNicIn}) {
      EXPECT_EQ(take(links.PortOf(rank, port)), 2 / slowness);
    }
    EXPECT_EQ(take(links.ReducerOf(rank)), 20 / slowness);
  }
  for (int32_t rack = 0; rack < 2; ++rack) {
    EXPECT_EQ(take(links.UplinkOut(rack)), 1);
    EXPECT_EQ(take(links.UplinkIn(rack)), 1);
  }
  EXPECT_THAT(left, ::testing::Each(0));
}

TEST(LinksTest, HostsFillRacksInOrder) {
  Network network;
  ASSERT_TRUE(
      ReadNetwork("hosts=3 lanes=2 rack_hosts=2 uplink_gbps=8", &network).ok());
  const Links links(network);
  const int32_t hosts[] = {0, 0, 1, 1, 2, 2};
  const int32_t racks[] = {0, 0, 0, 0, 1, 1};
  for (int32_t rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(links.HostOf(rank), hosts[rank]);
    EXPECT_EQ(links.RackOf(rank), racks[rank]);
  }
}

TEST(LinksTest, ReversedIsTheOtherDirectionOfTheSameLink) {
  Network network;
  ASSERT_TRUE(
      ReadNetwork("hosts=2 lanes=1 rack_hosts=1 uplink_gbps=8", &network).ok());
  const Links links(network);
  const size_t in = links.PortOf(1, Links::kNicIn);
  EXPECT_EQ(Links::Reversed(in), links.PortOf(1, Links::kNicOut));
  EXPECT_EQ(Links::Reversed(links.UplinkIn(1)), links.UplinkOut(1));
  EXPECT_TRUE(links.IsPortIn(in));
  EXPECT_FALSE(links.IsPortIn(Links::Reversed(in)));
  EXPECT_FALSE(links.IsPortIn(links.UplinkIn(1)));
  EXPECT_EQ(Links::RankOfPort(in), 1);
}

}  // namespace
}  // namespace muonshard::loopback
