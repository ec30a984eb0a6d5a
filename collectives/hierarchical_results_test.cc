// What reductions over hierarchies leave on every rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collectives/hierarchical_collective.h"
#include "collectives/testing/hierarchy_exchanges.h"
#include "collectives/testing/hierarchy_test.h"
#include "testing/conformance/canonical_reduction.h"
#include "testing/conformance/elements.h"
#include "testing/conformance/exchange.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

class HierarchicalResultsTest : public HierarchyTest {};

TEST_P(HierarchicalResultsTest, OfExactSumsAFlatGroupHasTheSameBits) {
  for (const HierarchyShape& shape : kHierarchyShapes) {
    SCOPED_TRACE(shape.name());
    std::vector<Exchange> flat = ExactExchanges(shape);
    std::vector<Exchange> exchanges = flat;
    const auto flat_results =
        RunOnRanks({.runtime = GetParam(), .size = shape.size()},
                   [&](Collective& world) {
                     return MakeExchanges(flat, world, Pace::kAllAtOnce,
                                          GuardDeadline(world.runtime()));
                   })
            .results;
    ASSERT_THAT(flat_results, Each(IsOk()));
    const auto results = Run(shape, [&](RankContext& context) {
      return MakeExchanges(exchanges, *context.world, Pace::kAllAtOnce,
                           GuardDeadline(context.runtime));
    });
    ASSERT_THAT(results, Each(IsOk()));
    WantWhatCameOf(flat, exchanges);
    ExpectWanted(exchanges);
  }
}

TEST_P(HierarchicalResultsTest, AReductionIsTheFoldOverHostsOfFoldsOverLanes) {
  for (const HierarchyShape& shape : kHierarchyShapes) {
    SCOPED_TRACE(shape.name());
    const auto ranks = static_cast<size_t>(shape.size());
    const Segments cut = Cut(shape);
    std::vector<Exchange> exchanges;
    for (const DataType type :
         {DataType::kF32, DataType::kF64, DataType::kF16, DataType::kBF16}) {
      for (const Reduction& reduction :
           {Reduction::Sum(), Reduction::Max(), Reduction::Average(),
            Reduction::ScaledSum(1.0 / 7)}) {
        const std::vector<Elements> in = Contributions(
            &Elements::Random, ranks, type, cut.total(), exchanges.size());
        const Elements whole = CanonicalReduction(in, reduction, shape.lanes);
        Exchange scatter = Scatter(in, cut, reduction);
        for (size_t r = 0; r < ranks; ++r) {
          scatter.want.push_back(whole.Slice(cut.begin(r), cut.count(r)));
        }
        Exchange sum = Sum(in, reduction);
        sum.want.assign(ranks, whole);
        exchanges.push_back(std::move(scatter));
        exchanges.push_back(std::move(sum));
      }
    }
    const auto results = Run(shape, [&](RankContext& context) {
      return MakeExchanges(exchanges, *context.world, Pace::kOneByOne,
                           GuardDeadline(context.runtime));
    });
    ASSERT_THAT(results, Each(IsOk()));
    ExpectWanted(exchanges);
  }
}

// 65504 is the largest f16: the sum of any two is infinite.
TEST_P(HierarchicalResultsTest, AMeanOfFiniteF16IsFiniteOnEveryLevel) {
  constexpr uint16_t kLargest = 0x7BFF;
  constexpr int64_t kCount = 7;
  for (const HierarchyShape& shape : kHierarchyShapes) {
    SCOPED_TRACE(shape.name());
    const auto ranks = static_cast<size_t>(shape.size());
    Elements large(DataType::kF16, kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      std::memcpy(large.out(i, 1).data, &kLargest, sizeof(kLargest));
    }
    std::vector<Exchange> exchanges;
    for (const Reduction& mean :
         {Reduction::Average(), Reduction::ScaledSum(1.0 / shape.size())}) {
      exchanges.push_back(Sum(std::vector<Elements>(ranks, large), mean));
      exchanges.back().want.assign(ranks, large);
      const Segments cut(std::vector<int64_t>(ranks, 1));
      exchanges.push_back(
          Scatter(std::vector<Elements>(ranks, large.Slice(0, shape.size())),
                  cut, mean));
      exchanges.back().want.assign(ranks, large.Slice(0, 1));
    }
    const auto results = Run(shape, [&](RankContext& context) {
      return MakeExchanges(exchanges, *context.world, Pace::kOneByOne,
                           GuardDeadline(context.runtime));
    });
    ASSERT_THAT(results, Each(IsOk()));
    ExpectWanted(exchanges);
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, HierarchicalResultsTest,
                         ::testing::ValuesIn(BothRuntimes(3)), RuntimeCaseName);

}  // namespace
}  // namespace muonshard::testing
