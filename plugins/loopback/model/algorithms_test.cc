// The stages of each operation, held to the closed forms of network.h.
//
// Closed forms are computed here from the network's own numbers, in the words
// of the papers, and never from what the code under test returns. Times agree
// to the rounding of doubles, 1e-9, where the forms are exact.

#include "plugins/loopback/model/algorithms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/loopback/call.h"
#include "plugins/loopback/model/flow.h"
#include "plugins/loopback/model/links.h"
#include "plugins/loopback/model/network.h"

namespace muonshard::loopback {
namespace {

constexpr double kRoundings = 1e-9;
constexpr double kWidth = 4;  // Bytes of an f32.

Network Make(const std::string& text) {
  Network network;
  const Outcome read = ReadNetwork(text, &network);
  EXPECT_TRUE(read.ok()) << read.text;
  return network;
}

std::vector<int32_t> Ranks(int32_t count) {
  std::vector<int32_t> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Call CallOf(uint32_t kind, uint64_t in_count, uint64_t out_count = 0) {
  Call call;
  call.kind = kind;
  call.reduction = {.data_type = MUONSHARD_F32, .kind = MUONSHARD_SUM};
  call.in_count = in_count;
  call.out_count = out_count;
  return call;
}

std::vector<Segment> Packed(const std::vector<uint64_t>& counts) {
  std::vector<Segment> segments;
  uint64_t first = 0;
  for (const uint64_t count : counts) {
    segments.push_back({first, count});
    first += count;
  }
  return segments;
}

Call ReduceScatter(const std::vector<uint64_t>& counts) {
  Call call = CallOf(MUONSHARD_REDUCE_SCATTER_V, 0);
  call.in_segments = Packed(counts);
  return call;
}

Call AllGather(const std::vector<uint64_t>& counts) {
  Call call = CallOf(MUONSHARD_ALL_GATHER_V, 0);
  call.out_segments = Packed(counts);
  return call;
}

// How long `call`, made on all of `ranks`, takes alone.
double Alone(const Network& network, const std::vector<int32_t>& ranks,
             const Call& call) {
  const Links links(network);
  const std::vector<const Call*> calls(ranks.size(), &call);
  FlowEngine engine(links.Rates());
  engine.Start(0, StagesOf(links, ranks, calls), 0);
  double end = 0;
  while (engine.NextChange() != FlowEngine::kNever) {
    end = engine.NextChange();
    engine.Advance(end);
  }
  return end;
}

// The bytes over each link.
std::map<size_t, double> LoadsOf(const std::vector<Stage>& stages) {
  std::map<size_t, double> bytes;
  for (const Stage& stage : stages) {
    for (const Load& load : stage.loads) bytes[load.link] += load.bytes;
  }
  return bytes;
}

void ExpectTime(double got, double wanted) {
  EXPECT_NEAR(got, wanted, wanted * kRoundings);
}

// Eight hosts of one lane, so that all messages go through interfaces.
constexpr char kFlat[] =
    "hosts=8 lanes=1 alpha_ns=1500 nic_gbps=400 gamma_gbps=8000 algorithm=";
constexpr double kAlpha = 1500;
constexpr double kBeta = 8.0 / 400;
constexpr double kGamma = 8.0 / 8000;
constexpr double kN = 8;
constexpr uint64_t kCount = 1'000'000;  // Of each segment.
constexpr double kBytes = 8 * kCount * kWidth;
constexpr double kShare = (kN - 1) / kN * kBytes;
const std::vector<uint64_t> kEven(8, kCount);

TEST(AlgorithmsTest, RingIsNMinus1StepsOfOneSegment) {
  const Network network = Make(std::string(kFlat) + "ring");
  const double scatter = (kN - 1) * kAlpha + kShare * (kBeta + kGamma);
  const double gather = (kN - 1) * kAlpha + kShare * kBeta;
  ExpectTime(Alone(network, Ranks(8), ReduceScatter(kEven)), scatter);
  ExpectTime(Alone(network, Ranks(8), AllGather(kEven)), gather);
  ExpectTime(Alone(network, Ranks(8), CallOf(MUONSHARD_ALL_REDUCE, 8 * kCount)),
             scatter + gather);
}

TEST(AlgorithmsTest, ARingLoadsTheInterfacesOfAllRanksAlike) {
  const Network network = Make(std::string(kFlat) + "ring");
  const Links links(network);
  for (const Call& call : {ReduceScatter(kEven), AllGather(kEven)}) {
    const std::vector<const Call*> calls(8, &call);
    std::map<size_t, double> bytes = LoadsOf(StagesOf(links, Ranks(8), calls));
    for (int32_t rank = 0; rank < 8; ++rank) {
      EXPECT_EQ(bytes[links.PortOf(rank, Links::kNicOut)], kShare);
      EXPECT_EQ(bytes[links.PortOf(rank, Links::kNicIn)], kShare);
    }
  }
}

TEST(AlgorithmsTest, HalvingIsLogNSteps) {
  const Network network = Make(std::string(kFlat) + "halving");
  const double scatter = 3 * kAlpha + kShare * (kBeta + kGamma);
  const double gather = 3 * kAlpha + kShare * kBeta;
  ExpectTime(Alone(network, Ranks(8), ReduceScatter(kEven)), scatter);
  ExpectTime(Alone(network, Ranks(8), AllGather(kEven)), gather);
  ExpectTime(Alone(network, Ranks(8), CallOf(MUONSHARD_ALL_REDUCE, 8 * kCount)),
             scatter + gather);
}

TEST(AlgorithmsTest, DirectIsOneStep) {
  const Network network = Make(std::string(kFlat) + "direct");
  const double scatter = kAlpha + kShare * (kBeta + kGamma);
  const double gather = kAlpha + kShare * kBeta;
  ExpectTime(Alone(network, {0, 1}, AllGather({kCount, kCount})),
             kAlpha + kCount * kWidth * kBeta);
  ExpectTime(Alone(network, Ranks(8), ReduceScatter(kEven)), scatter);
  ExpectTime(Alone(network, Ranks(8), AllGather(kEven)), gather);
  ExpectTime(Alone(network, Ranks(8), CallOf(MUONSHARD_ALL_REDUCE, 8 * kCount)),
             scatter + gather);
}

TEST(AlgorithmsTest, UnevenSegmentsCostAsTheLargestOnARing) {
  const Network network = Make(std::string(kFlat) + "ring");
  const std::vector<uint64_t> counts = {5, 0, 900, 7, 100, 0, 300, 1};
  ExpectTime(Alone(network, Ranks(8), ReduceScatter(counts)),
             (kN - 1) * (kAlpha + 900 * kWidth * (kBeta + kGamma)));
  ExpectTime(Alone(network, Ranks(8), AllGather(counts)),
             (kN - 1) * (kAlpha + 900 * kWidth * kBeta));
}

TEST(AlgorithmsTest, UnevenSegmentsCostTheirOwnerWhenSentDirectly) {
  const Network network = Make(std::string(kFlat) + "direct");
  const std::vector<uint64_t> counts = {5, 0, 900, 7, 100, 0, 300, 1};
  ExpectTime(Alone(network, Ranks(8), ReduceScatter(counts)),
             kAlpha + (kN - 1) * 900 * kWidth * (kBeta + kGamma));
  ExpectTime(Alone(network, Ranks(8), AllGather(counts)),
             kAlpha + (kN - 1) * 900 * kWidth * kBeta);
}

TEST(AlgorithmsTest, UnevenSegmentsDoubleAsTheyAreHeld) {
  const Network network = Make(std::string(kFlat) + "halving");
  const std::vector<uint64_t> counts = {5, 0, 900, 7, 100, 0, 300, 1};
  // The largest block that a rank sends in each step, of one, two and four
  // segments.
  const double largest = (900 + 907 + 912) * kWidth;
  ExpectTime(Alone(network, Ranks(8), AllGather(counts)),
             3 * kAlpha + largest * kBeta);
  ExpectTime(Alone(network, Ranks(8), ReduceScatter(counts)),
             3 * kAlpha + largest * (kBeta + kGamma));
}

TEST(AlgorithmsTest, ReduceGathersAndBroadcastScatters) {
  const Network network = Make(std::string(kFlat) + "ring");
  const double to_root = kAlpha + kShare * kBeta;
  Call reduce = CallOf(MUONSHARD_REDUCE, 8 * kCount);
  reduce.root = 3;
  ExpectTime(Alone(network, Ranks(8), reduce),
             (kN - 1) * kAlpha + kShare * (kBeta + kGamma) + to_root);
  Call broadcast = CallOf(MUONSHARD_BROADCAST, 0, 8 * kCount);
  broadcast.root = 5;
  ExpectTime(Alone(network, Ranks(8), broadcast),
             to_root + (kN - 1) * kAlpha + kShare * kBeta);
}

TEST(AlgorithmsTest, AllToAllIsBoundByWhoSendsOrGetsMost) {
  const Network network = Make("hosts=3 lanes=1 alpha_ns=100 nic_gbps=8");
  const uint64_t counts[3][3] = {{9, 10, 20}, {30, 9, 50}, {0, 1, 9}};
  std::vector<Call> calls;
  for (const auto& row : counts) {
    calls.push_back(CallOf(MUONSHARD_ALL_TO_ALL_V, 0));
    calls.back().in_segments = Packed({row[0], row[1], row[2]});
  }
  const Links links(network);
  const std::vector<const Call*> all = {&calls[0], &calls[1], &calls[2]};
  FlowEngine engine(links.Rates());
  engine.Start(0, StagesOf(links, Ranks(3), all), 0);
  // A byte takes a nanosecond. Rank 1 sends 30 + 50; its own 9 stay.
  EXPECT_TRUE(engine.Advance(100 + 80 * kWidth - 0.1).empty());
  EXPECT_FALSE(engine.Advance(100 + 80 * kWidth + 0.1).empty());
}

TEST(AlgorithmsTest, AMessageTakesOneAlphaAndItsBytes) {
  const Network network = Make(
      "hosts=2 lanes=2 alpha_ns=1500 lane_alpha_ns=600 nic_gbps=80 "
      "lane_gbps=800");
  const Call send = CallOf(MUONSHARD_SEND, 1000);
  ExpectTime(Alone(network, {1, 2}, send), 1500 + 1000 * kWidth * 0.1);
  ExpectTime(Alone(network, {3, 2}, send), 600 + 1000 * kWidth * 0.01);
}

TEST(AlgorithmsTest, ABarrierDisseminates) {
  const Network network =
      Make("hosts=4 lanes=2 alpha_ns=1500 lane_alpha_ns=600");
  const Call barrier = CallOf(MUONSHARD_BARRIER, 0);
  ExpectTime(Alone(network, Ranks(8), barrier), 3 * 1500);
  ExpectTime(Alone(network, Ranks(5), barrier), 3 * 1500);
  ExpectTime(Alone(network, {2, 3}, barrier), 600);
  EXPECT_EQ(Alone(network, {2}, barrier), 0);
}

TEST(AlgorithmsTest, NothingToMoveTakesNoTime) {
  for (const char* algorithm : {"ring", "halving", "direct"}) {
    const Network network = Make(std::string(kFlat) + algorithm);
    EXPECT_EQ(Alone(network, Ranks(8), CallOf(MUONSHARD_ALL_REDUCE, 0)), 0);
    EXPECT_EQ(Alone(network, {4}, CallOf(MUONSHARD_ALL_REDUCE, 1000)), 0);
    EXPECT_EQ(Alone(network, {4}, CallOf(MUONSHARD_REDUCE, 1000)), 0);
  }
}

TEST(AlgorithmsTest, AutoHalvesSmallPowersOfTwoAndRingsTheRest) {
  const Network network = Make(std::string(kFlat) + "auto");
  const double share = (kN - 1) / kN;
  const double small = kHalvingBytesMax;
  const auto counts = [](double bytes, double ranks) {
    return std::vector<uint64_t>(static_cast<size_t>(ranks),
                                 static_cast<uint64_t>(bytes / kWidth / ranks));
  };
  ExpectTime(Alone(network, Ranks(8), AllGather(counts(small, kN))),
             3 * kAlpha + share * small * kBeta);
  ExpectTime(Alone(network, Ranks(8), AllGather(counts(2 * small, kN))),
             7 * kAlpha + share * 2 * small * kBeta);
  ExpectTime(Alone(network, Ranks(6), AllGather(counts(4 * 6 * 100, 6))),
             5 * (kAlpha + 400 * kBeta));
}

TEST(AlgorithmsTest, HalvingOfAnotherNumberOfRanksIsARing) {
  const Network network = Make(std::string(kFlat) + "halving");
  ExpectTime(Alone(network, Ranks(6), AllGather(std::vector<uint64_t>(6, 50))),
             5 * (kAlpha + 50 * kWidth * kBeta));
}

TEST(AlgorithmsTest, AStragglerHoldsUpEveryStepOfARing) {
  const std::string slow = "; slow rank=3 factor=4";
  const double scatter = (kN - 1) * kAlpha + kShare * (kBeta + kGamma);
  ExpectTime(Alone(Make(std::string(kFlat) + "ring" + slow), Ranks(8),
                   ReduceScatter(kEven)),
             4 * scatter);
  // Where it has no part nobody minds.
  const Network network = Make(std::string(kFlat) + "ring" + slow);
  ExpectTime(
      Alone(network, {4, 5, 6, 7}, AllGather(std::vector<uint64_t>(4, kCount))),
      3 * (kAlpha + kCount * kWidth * kBeta));
}

// Two hosts of four lanes, lanes ten times as fast as interfaces.
constexpr char kTwoHosts[] =
    "hosts=2 lanes=4 alpha_ns=1500 lane_alpha_ns=600 lane_gbps=4000 "
    "nic_gbps=400 algorithm=";
constexpr double kLaneBeta = 8.0 / 4000;

TEST(AlgorithmsTest, ARingOverHostsIsAsSlowAsItsInterfaces) {
  ExpectTime(
      Alone(Make(std::string(kTwoHosts) + "ring"), Ranks(8), AllGather(kEven)),
      (kN - 1) * kAlpha + kShare * kBeta);
}

TEST(AlgorithmsTest, HalvingStepsGoOverLanesOrInterfacesAsPartnersLie) {
  // Distances 1 and 2 stay in the host: one segment, then two, over lanes; four
  // over interfaces.
  ExpectTime(Alone(Make(std::string(kTwoHosts) + "halving"), Ranks(8),
                   AllGather(kEven)),
             2 * 600 + 1500 + 3 * kCount * kWidth * kLaneBeta +
                 4 * kCount * kWidth * kBeta);
}

TEST(AlgorithmsTest, DirectSplitsBytesOverLanesAndInterfaces) {
  // Each rank sends its segment to 4 others through its interface, which is
  // slower than to 3 through its lane.
  ExpectTime(Alone(Make(std::string(kTwoHosts) + "direct"), Ranks(8),
                   AllGather(kEven)),
             1500 + 4 * kCount * kWidth * kBeta);
  ExpectTime(Alone(Make(std::string(kTwoHosts) + "direct"), Ranks(4),
                   AllGather(std::vector<uint64_t>(4, kCount))),
             600 + 3 * kCount * kWidth * kLaneBeta);
}

// Four hosts of two lanes in two racks; the up-link is as fast as one
// interface.
constexpr char kRacks[] =
    "hosts=4 lanes=2 rack_hosts=2 alpha_ns=1500 lane_alpha_ns=600 "
    "lane_gbps=4000 nic_gbps=400 uplink_gbps=400 algorithm=";

TEST(AlgorithmsTest, ARingCrossesEachUplinkOnce) {
  ExpectTime(
      Alone(Make(std::string(kRacks) + "ring"), Ranks(8), AllGather(kEven)),
      (kN - 1) * kAlpha + kShare * kBeta);
}

TEST(AlgorithmsTest, DirectCrossesUplinksWithAllThatTheOtherRackWants) {
  // 4 ranks of a rack send a segment to each of 4 others: 16 over the up-link.
  const double time = 1500 + 16 * kCount * kWidth * kBeta;
  const Network network = Make(std::string(kRacks) + "direct");
  ExpectTime(Alone(network, Ranks(8), AllGather(kEven)), time);
  ExpectTime(Alone(network, Ranks(8), ReduceScatter(kEven)), time);
}

TEST(AlgorithmsTest, DirectIsTheAllToAllOfTheSameBytes) {
  // Uneven segments on hosts of two racks of unequal size: the sums by host and
  // rack are those of all pairs.
  const std::vector<uint64_t> counts = {5, 0, 900, 7, 100, 300};
  std::vector<Call> pairs(6, CallOf(MUONSHARD_ALL_TO_ALL_V, 0));
  std::vector<const Call*> calls;
  for (size_t i = 0; i < counts.size(); ++i) {
    pairs[i].in_segments = Packed(std::vector<uint64_t>(6, counts[i]));
    calls.push_back(&pairs[i]);
  }
  const Network network = Make(
      "hosts=3 lanes=2 rack_hosts=2 alpha_ns=1500 lane_alpha_ns=600 "
      "lane_gbps=4000 nic_gbps=400 uplink_gbps=300 algorithm=direct");
  const Links links(network);
  const std::vector<Stage> stages = StagesOf(links, Ranks(6), calls);
  const Call gather = AllGather(counts);
  EXPECT_EQ(
      LoadsOf(StagesOf(links, Ranks(6), std::vector<const Call*>(6, &gather))),
      LoadsOf(stages));
  FlowEngine engine(links.Rates());
  engine.Start(0, stages, 0);
  double end = 0;
  while (engine.NextChange() != FlowEngine::kNever) {
    end = engine.NextChange();
    engine.Advance(end);
  }
  ExpectTime(Alone(network, Ranks(6), gather), end);
}

TEST(AlgorithmsTest, TwoOperationsShareAnUplinkUntilOneEnds) {
  // Rings of lane 0 and of lane 1, of unequal sizes, cross the same up-links.
  const Network network = Make(std::string(kRacks) + "ring");
  const Links links(network);
  const Call small = AllGather(std::vector<uint64_t>(4, kCount));
  const Call large = AllGather(std::vector<uint64_t>(4, 3 * kCount));
  FlowEngine engine(links.Rates());
  engine.Start(
      1,
      StagesOf(links, std::vector<int32_t>{0, 2, 4, 6}, std::vector(4, &small)),
      0);
  engine.Start(
      2,
      StagesOf(links, std::vector<int32_t>{1, 3, 5, 7}, std::vector(4, &large)),
      0);
  const double bytes =
      3 * kCount * kWidth;  // Over each link, of the small one.
  const double first = 3 * kAlpha + 2 * bytes * kBeta;
  const double last = 3 * kAlpha + (bytes + 3 * bytes) * kBeta;
  EXPECT_TRUE(engine.Advance(first * (1 - kRoundings)).empty());
  EXPECT_EQ(engine.Advance(first * (1 + kRoundings)), std::vector<uint64_t>{1});
  EXPECT_TRUE(engine.Advance(last * (1 - kRoundings)).empty());
  EXPECT_EQ(engine.Advance(last * (1 + kRoundings)), std::vector<uint64_t>{2});
}

}  // namespace
}  // namespace muonshard::loopback
