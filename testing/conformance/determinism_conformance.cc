// The bits of reductions: canonical, repeatable, alike on all ranks, and near
// the exact result in any case.

#include <gmock/gmock.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/conformance/canonical_reduction.h"
#include "testing/conformance/collective_conformance.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

constexpr int64_t kCount = 61;

struct ReductionCase {
  DataType type;
  Reduction reduction;
  std::vector<Elements> contributions;
};

std::vector<ReductionCase> ReductionCases(const Capabilities& promises,
                                          size_t ranks) {
  std::vector<ReductionCase> cases;
  for (const DataType type : PromisedDataTypes(promises)) {
    for (const Reduction& reduction : PromisedReductions(promises, type)) {
      cases.push_back({type, reduction,
                       Contributions(&Elements::Random, ranks, type, kCount,
                                     Seed(12, cases.size()))});
    }
  }
  return cases;
}

Exchange AllReduceOf(const ReductionCase& reduction_case) {
  const size_t ranks = reduction_case.contributions.size();
  Exchange exchange;
  exchange.name =
      absl::StrCat("AllReduce, ", ToString(reduction_case.reduction), " of ",
                   DataTypeName(reduction_case.type));
  exchange.in = reduction_case.contributions;
  exchange.out.assign(ranks, Elements(reduction_case.type, kCount));
  exchange.call = [reduction = reduction_case.reduction](
                      Collective& group, const Elements& in, Elements& out) {
    return group.AllReduce(in.in(), out.out(), reduction);
  };
  return exchange;
}

Exchange ReduceOf(const ReductionCase& reduction_case) {
  const size_t ranks = reduction_case.contributions.size();
  Exchange exchange;
  exchange.name = absl::StrCat("Reduce, ", ToString(reduction_case.reduction),
                               " of ", DataTypeName(reduction_case.type));
  exchange.in = reduction_case.contributions;
  exchange.out.assign(ranks, Elements(reduction_case.type, 0));
  exchange.out.back() = Elements(reduction_case.type, kCount);
  exchange.call = [reduction = reduction_case.reduction](
                      Collective& group, const Elements& in, Elements& out) {
    return group.Reduce(in.in(), out.out(), reduction, Rank{group.size() - 1});
  };
  return exchange;
}

// The first rank has none, the others nearly equal parts.
Segments CutOf(size_t ranks) {
  std::vector<int64_t> counts(ranks, 0);
  for (int64_t i = 0; i < kCount; ++i) {
    ++counts[ranks == 1 ? 0 : 1 + static_cast<size_t>(i) % (ranks - 1)];
  }
  return Segments(std::move(counts));
}

Exchange ReduceScatterOf(const ReductionCase& reduction_case) {
  const size_t ranks = reduction_case.contributions.size();
  Exchange exchange;
  exchange.name =
      absl::StrCat("ReduceScatterV, ", ToString(reduction_case.reduction),
                   " of ", DataTypeName(reduction_case.type));
  exchange.in = reduction_case.contributions;
  const Segments cut = CutOf(ranks);
  for (const int64_t count : cut.counts()) {
    exchange.out.emplace_back(reduction_case.type, count);
  }
  exchange.call = [cut, reduction = reduction_case.reduction](
                      Collective& group, const Elements& in, Elements& out) {
    return group.ReduceScatterV(in.in(), out.out(), cut.counts(), reduction);
  };
  return exchange;
}

TEST_P(CollectiveConformance, ACanonicalAllReduceIsTheFoldOverRanks) {
  const Capabilities promises = Promises();
  if (!promises.canonical) GTEST_SKIP() << "canonical is not promised";
  std::vector<Exchange> exchanges;
  for (const ReductionCase& c : ReductionCases(promises, ranks())) {
    Exchange exchange = AllReduceOf(c);
    exchange.want.assign(
        ranks(), CanonicalReduction(c.contributions, c.reduction, lanes()));
    exchanges.push_back(std::move(exchange));
  }
  ExpectExchanges(std::move(exchanges));
}

// Goes through the whole group of a hierarchy too.
TEST_P(CollectiveConformance, ACanonicalReduceIsTheFoldOverRanks) {
  const Capabilities promises = Promises();
  if (!promises.canonical) GTEST_SKIP() << "canonical is not promised";
  std::vector<Exchange> exchanges;
  for (const ReductionCase& c : ReductionCases(promises, ranks())) {
    Exchange exchange = ReduceOf(c);
    exchange.want = exchange.out;
    exchange.want.back() = CanonicalReduction(c.contributions, c.reduction);
    exchanges.push_back(std::move(exchange));
  }
  ExpectExchanges(std::move(exchanges));
}

TEST_P(CollectiveConformance, ACanonicalReduceScatterIsTheFoldOverRanks) {
  const Capabilities promises = Promises();
  if (!promises.canonical) GTEST_SKIP() << "canonical is not promised";
  const Segments cut = CutOf(ranks());
  std::vector<Exchange> exchanges;
  for (const ReductionCase& c : ReductionCases(promises, ranks())) {
    Exchange exchange = ReduceScatterOf(c);
    const Elements whole =
        CanonicalReduction(c.contributions, c.reduction, lanes());
    for (size_t r = 0; r < ranks(); ++r) {
      exchange.want.push_back(whole.Slice(cut.begin(r), cut.count(r)));
    }
    exchanges.push_back(std::move(exchange));
  }
  ExpectExchanges(std::move(exchanges));
}

// 2^24 + 1 rounds to 2^24 in f32; folded from the left the 1 is lost, whichever
// rank comes first. Any other order keeps it from three ranks on.
TEST_P(PeerConformance, ACanonicalSumGoesFromTheFirstRankToTheLast) {
  if (!Promises().canonical) GTEST_SKIP() << "canonical is not promised";
  constexpr float kTerms[] = {0x1p24F, 1, -0x1p24F};
  std::vector<float> sums(ranks(), -1);
  const auto results = OnEveryRank([&](Collective& world) {
    const size_t rank = IndexOf(world.rank());
    const float term = rank < 3 ? kTerms[rank] : 0;
    return Finish(world,
                  world.AllReduce(ConstBuffer::Of(std::span(&term, 1)),
                                  MutableBuffer::Of(std::span(&sums[rank], 1)),
                                  Reduction::Sum()));
  });
  EXPECT_THAT(results, Each(IsOk()));
  EXPECT_THAT(sums, Each(size() == 2 ? 0x1p24F : 0));
}

// The largest f16 is 65504: the sum of two passes it, and the sum of all does
// not. In f32, where the fold runs, nothing overflows; what a host of two lanes
// leaves to the next level is an f16 again.
TEST_P(PeerConformance, ACanonicalSumOfF16OverflowsOnlyWhereTheResultDoes) {
  if (!Promises().canonical) GTEST_SKIP() << "canonical is not promised";
  constexpr uint16_t k40000 = 0x78E2;
  constexpr uint16_t kMinus40000 = 0xF8E2;
  constexpr uint16_t kInfinity = 0x7C00;
  constexpr uint16_t kTerms[] = {k40000, k40000, kMinus40000};
  std::vector<uint16_t> sums(ranks(), 0);
  const auto results = OnEveryRank([&](Collective& world) {
    const size_t rank = IndexOf(world.rank());
    const uint16_t term = rank < 3 ? kTerms[rank] : uint16_t{0};
    return Finish(world, world.AllReduce({&term, 1, DataType::kF16},
                                         {&sums[rank], 1, DataType::kF16},
                                         Reduction::Sum()));
  });
  EXPECT_THAT(results, Each(IsOk()));
  const bool two_alone = size() == 2 || lanes() == 2;
  EXPECT_THAT(sums, Each(two_alone ? kInfinity : k40000));
}

TEST_P(CollectiveConformance, ARepeatableReductionHasTheSameBitsInEveryRun) {
  const Capabilities promises = Promises();
  if (!promises.repeatable) GTEST_SKIP() << "repeatable is not promised";
  std::vector<Exchange> exchanges;
  for (const ReductionCase& c : ReductionCases(promises, ranks())) {
    exchanges.push_back(AllReduceOf(c));
    exchanges.push_back(ReduceOf(c));
    exchanges.push_back(ReduceScatterOf(c));
  }
  std::vector<Exchange> first = exchanges;
  const auto results = OnEveryRank([&](Collective& world) {
    return MakeExchanges(first, world, Pace::kAllAtOnce,
                         GuardDeadline(world.runtime()));
  });
  ASSERT_THAT(results, Each(IsOk()));
  for (size_t i = 0; i < exchanges.size(); ++i) {
    exchanges[i].want = first[i].out;
  }
  ExpectExchanges(std::move(exchanges), Pace::kOneByOne);
}

TEST_P(CollectiveConformance, AReductionIsNearTheExactOneAndAlikeOnAllRanks) {
  const std::vector<ReductionCase> cases = ReductionCases(Promises(), ranks());
  std::vector<Exchange> exchanges;
  for (const ReductionCase& c : cases) exchanges.push_back(AllReduceOf(c));
  const auto results = OnEveryRank([&](Collective& world) {
    return MakeExchanges(exchanges, world, Pace::kOneByOne,
                         GuardDeadline(world.runtime()));
  });
  ASSERT_THAT(results, Each(IsOk()));
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(exchanges[i].name);
    EXPECT_TRUE(IsWithinOneRoundingPerHop(
        exchanges[i].out[0], cases[i].contributions, cases[i].reduction));
    for (const Elements& out : exchanges[i].out) {
      EXPECT_TRUE(HasBitsOf(out, exchanges[i].out[0]));
    }
  }
}

}  // namespace
}  // namespace muonshard::testing
