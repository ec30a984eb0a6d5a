// Times are of small whole numbers of bytes and rates that are powers of two or
// sums of few of these, so most are exact; where a third turns up, a few
// roundings of doubles are allowed.

#include "plugins/loopback/model/flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace muonshard::loopback {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kRoundings = 1e-12;  // Relative; a double has 1.1e-16.

// When each flow ends, if nothing is started any more.
std::map<uint64_t, double> Ends(FlowEngine& engine) {
  std::map<uint64_t, double> ends;
  for (double now = 0; now != FlowEngine::kNever; now = engine.NextChange()) {
    for (const uint64_t id : engine.Advance(now)) ends[id] = now;
  }
  return ends;
}

void ExpectEnds(FlowEngine& engine, const std::map<uint64_t, double>& wanted) {
  const std::map<uint64_t, double> ends = Ends(engine);
  ASSERT_EQ(ends.size(), wanted.size());
  for (const auto& [id, end] : wanted) {
    EXPECT_NEAR(ends.at(id), end, end * kRoundings) << "flow " << id;
  }
}

TEST(FlowEngineTest, AFlowAloneTakesItsLatenciesAndItsTightLinks) {
  FlowEngine engine({2, 4});
  engine.Start(7,
               {{.latency_ns = 10, .loads = {{0, 16}, {1, 24}}},
                {.latency_ns = 3},
                {.loads = {{1, 20}}}},
               0);
  // 10 + max(16 / 2, 24 / 4), 3, 20 / 4.
  ExpectEnds(engine, {{7, 26}});
  EXPECT_EQ(engine.NextChange(), FlowEngine::kNever);
}

TEST(FlowEngineTest, PartsOfANanosecondCount) {
  FlowEngine engine({4});
  engine.Start(1, {{.latency_ns = 0.5, .loads = {{0, 3}}}}, 0);
  ExpectEnds(engine, {{1, 1.25}});
}

TEST(FlowEngineTest, AFlowOfNothingEndsAtOnce) {
  FlowEngine engine({1});
  engine.Start(1, {}, 5);
  EXPECT_THAT(engine.Advance(5), ElementsAre(1));
  EXPECT_THAT(engine.Advance(5), IsEmpty());
}

TEST(FlowEngineTest, ALinkThatIsNeverFullTakesNoTime) {
  FlowEngine engine({FlowEngine::kNever, 2});
  engine.Start(1, {{.loads = {{0, 1e9}}}}, 5);
  EXPECT_THAT(engine.Advance(5), ElementsAre(1));
  engine.Start(2, {{.loads = {{0, 1e9}, {1, 8}}}}, 5);
  ExpectEnds(engine, {{2, 9}});
}

TEST(FlowEngineTest, TwoFlowsHalveALinkUntilOneEnds) {
  FlowEngine engine({1});
  engine.Start(1, {{.loads = {{0, 10}}}}, 0);
  engine.Start(2, {{.loads = {{0, 30}}}}, 0);
  // Half each until 20; then the second has 20 left and all of the link.
  ExpectEnds(engine, {{1, 20}, {2, 40}});
}

TEST(FlowEngineTest, AFlowThatComesLaterSharesFromThenOn) {
  FlowEngine engine({1});
  engine.Start(1, {{.loads = {{0, 10}}}}, 0);
  engine.Start(2, {{.latency_ns = 2, .loads = {{0, 3}}}}, 4);
  // Flow 1 has 4 left at 6, when the other begins to move: half each until
  // that ends at 12, when 1 has 1 left.
  ExpectEnds(engine, {{2, 12}, {1, 13}});
}

TEST(FlowEngineTest, WhoIsHeldUpElsewhereLeavesTheRestToOthers) {
  FlowEngine engine({10, 2});
  engine.Start(1, {{.loads = {{0, 80}}}}, 0);
  engine.Start(2, {{.loads = {{0, 20}, {1, 20}}}}, 0);
  // 2 runs at 2 on its own link, which leaves 8 of the shared one.
  ExpectEnds(engine, {{1, 10}, {2, 10}});
}

TEST(FlowEngineTest, SharesAreOfBytesOnTheTightLink) {
  FlowEngine engine({4, 1});
  // Link 1 is tight for both, though 2 moves more over link 0.
  engine.Start(1, {{.loads = {{0, 1}, {1, 8}}}}, 0);
  engine.Start(2, {{.loads = {{0, 16}, {1, 8}}}}, 0);
  ExpectEnds(engine, {{1, 16}, {2, 16}});
}

TEST(FlowEngineTest, SharesOfThreeLinksAreMaxMinFair) {
  // The example of three nodes in a line: the long flow shares link 0 with two
  // others and link 1 with one.
  FlowEngine engine({3, 4});
  engine.Start(1, {{.loads = {{0, 6}, {1, 6}}}}, 0);  // 1 a nanosecond.
  engine.Start(2, {{.loads = {{0, 6}}}}, 0);          // 1
  engine.Start(3, {{.loads = {{0, 6}}}}, 0);          // 1
  engine.Start(4, {{.loads = {{1, 18}}}}, 0);         // 3
  ExpectEnds(engine, {{1, 6}, {2, 6}, {3, 6}, {4, 6}});
}

TEST(FlowEngineTest, ManyEqualFlowsEndTogether) {
  constexpr int kFlows = 700;
  FlowEngine engine({7});
  std::map<uint64_t, double> wanted;
  for (int i = 0; i < kFlows; ++i) {
    engine.Start(static_cast<uint64_t>(i), {{.loads = {{0, 3}}}}, 0);
    wanted[static_cast<uint64_t>(i)] = 3.0 * kFlows / 7;
  }
  ExpectEnds(engine, wanted);
}

TEST(FlowEngineTest, ALinkIsNeverUsedMoreThanItHolds) {
  // Work is conserved: flows that keep one link full end, the last of them,
  // when all bytes at its rate have passed, however they come.
  FlowEngine engine({3, 5, 2});
  double bytes = 0;
  for (uint64_t i = 0; i < 20; ++i) {
    const double own = 40 + 7 * static_cast<double>(i % 5);
    bytes += own;
    engine.Start(i, {{.loads = {{0, own}, {1 + i % 2, own / 8}}}},
                 static_cast<double>(i));
  }
  double last = 0;
  for (const auto& [id, end] : Ends(engine)) last = std::max(last, end);
  EXPECT_NEAR(last, bytes / 3, last * kRoundings);
}

TEST(FlowEngineTest, ACancelledFlowLeavesItsShare) {
  FlowEngine engine({1});
  engine.Start(1, {{.loads = {{0, 10}}}}, 0);
  engine.Start(2, {{.loads = {{0, 10}}}}, 0);
  engine.Start(3, {{.latency_ns = 50, .loads = {{0, 10}}}}, 0);
  engine.Cancel(2, 8);
  engine.Cancel(3, 8);
  engine.Cancel(4, 8);
  // 4 of 10 have been moved by then.
  ExpectEnds(engine, {{1, 14}});
}

TEST(FlowEngineTest, ALateLookFindsTheEndsInTheirOrder) {
  FlowEngine engine({1, 1});
  engine.Start(1, {{.loads = {{0, 9}}}}, 0);
  engine.Start(2, {{.loads = {{0, 4}}}, {.loads = {{1, 20}}}}, 0);
  engine.Start(3, {{.loads = {{1, 2}}}}, 0);
  // 3 ends at 2; 2 leaves link 0 at 8, 1 ends at 13, 2 at 28.
  EXPECT_THAT(engine.Advance(100), ElementsAre(3, 1, 2));
}

}  // namespace
}  // namespace muonshard::loopback
