// Batch: calls that are posted together, in one group or several.

#include <gmock/gmock.h>

#include <utility>
#include <vector>

#include "collectives/batch.h"
#include "testing/conformance/canonical_reduction.h"
#include "testing/conformance/collective_conformance.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

constexpr int64_t kCount = 33;

Operation AllReduceOperation(const Elements& in, Elements& out) {
  return {.kind = OperationKind::kAllReduce,
          .data_type = in.type(),
          .reduction = Reduction::Sum(),
          .in = in.in(),
          .out = out.out()};
}

absl::Status PostAndWait(Batch& batch, Runtime& runtime) {
  absl::StatusOr<std::vector<Work>> works = batch.Post();
  if (!works.ok()) return works.status();
  for (const Work& work : *works) {
    if (absl::Status s = work.Wait(GuardDeadline(runtime)); !s.ok()) return s;
  }
  return absl::OkStatus();
}

TEST_P(CollectiveConformance, ABatchGivesTheResultOfEachOfItsCalls) {
  const std::vector<Elements> in = Contributions(
      &Elements::SmallIntegers, ranks(), DataType::kF32, kCount, 16);
  const Segments segments(std::vector<int64_t>(ranks(), 3));
  const Elements gathered =
      Elements::RandomBits(DataType::kI32, segments.total(), 17);
  std::vector<Elements> sums(ranks(), Elements(DataType::kF32, kCount));
  std::vector<Elements> gathers(ranks(),
                                Elements(DataType::kI32, segments.total()));

  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const size_t rank = IndexOf(world.rank());
    const Elements own =
        gathered.Slice(segments.begin(rank), segments.count(rank));
    Batch batch;
    if (absl::Status s =
            batch.Add(world, AllReduceOperation(in[rank], sums[rank]));
        !s.ok()) {
      return s;
    }
    if (absl::Status s = batch.Add(world, {.kind = OperationKind::kBarrier});
        !s.ok()) {
      return s;
    }
    if (absl::Status s = batch.Add(world, {.kind = OperationKind::kAllGatherV,
                                           .data_type = DataType::kI32,
                                           .in = own.in(),
                                           .out = gathers[rank].out(),
                                           .out_counts = segments.counts()});
        !s.ok()) {
      return s;
    }
    absl::StatusOr<std::vector<Work>> works = batch.Post();
    if (!works.ok()) return works.status();
    EXPECT_EQ(works->size(), 3);
    EXPECT_TRUE(batch.empty());
    // The last one ends after the others, which ran before it.
    return works->back().Wait(GuardDeadline(world.runtime()));
  });
  ASSERT_THAT(results, Each(IsOk()));
  const Elements sum = CanonicalReduction(in, Reduction::Sum());
  for (size_t r = 0; r < ranks(); ++r) {
    EXPECT_TRUE(HasBitsOf(sums[r], sum));
    EXPECT_TRUE(HasBitsOf(gathers[r], gathered));
  }
}

TEST_P(CollectiveConformance, ABatchSpansGroups) {
  const std::vector<Elements> in = Contributions(
      &Elements::SmallIntegers, ranks(), DataType::kI64, kCount, 18);
  std::vector<Elements> first(ranks(), Elements(DataType::kI64, kCount));
  std::vector<Elements> second = first;
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    absl::StatusOr<std::unique_ptr<Collective>> other = NewSecondGroup(context);
    if (!other.ok()) return other.status();
    const size_t rank = IndexOf(context.rank);
    Batch batch;
    if (absl::Status s = batch.Add(*context.world,
                                   AllReduceOperation(in[rank], first[rank]));
        !s.ok()) {
      return s;
    }
    if (absl::Status s =
            batch.Add(**other, AllReduceOperation(in[rank], second[rank]));
        !s.ok()) {
      return s;
    }
    if (absl::Status s = PostAndWait(batch, context.runtime); !s.ok()) return s;
    // Nobody leaves the second group while another rank is in the batch.
    return Finish(*context.world, context.world->Barrier());
  });
  ASSERT_THAT(results, Each(IsOk()));
  const Elements sum = CanonicalReduction(in, Reduction::Sum());
  for (size_t r = 0; r < ranks(); ++r) {
    EXPECT_TRUE(HasBitsOf(first[r], sum));
    EXPECT_TRUE(HasBitsOf(second[r], sum));
  }
}

TEST_P(CollectiveConformance, AnEmptyBatchGivesNoWorks) {
  Batch batch;
  EXPECT_TRUE(batch.empty());
  const absl::StatusOr<std::vector<Work>> works = batch.Post();
  ASSERT_THAT(works, IsOk());
  EXPECT_TRUE(works->empty());
}

TEST_P(CollectiveConformance, ABatchRefusesAWrongCallAndKeepsTheOthers) {
  std::vector<Elements> outs(ranks(), Elements(DataType::kF32, 4));
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const size_t rank = IndexOf(world.rank());
    const Elements in =
        Elements::SmallIntegers(DataType::kF32, 4, Seed(19, rank));
    Elements too_short(DataType::kF32, 3);
    Batch batch;
    if (absl::Status s = batch.Add(world, AllReduceOperation(in, outs[rank]));
        !s.ok()) {
      return s;
    }
    EXPECT_THAT(batch.Add(world, AllReduceOperation(in, too_short)),
                StatusIs(absl::StatusCode::kInvalidArgument));
    return PostAndWait(batch, world.runtime());
  });
  ASSERT_THAT(results, Each(IsOk()));
  std::vector<Elements> in;
  for (size_t r = 0; r < ranks(); ++r) {
    in.push_back(Elements::SmallIntegers(DataType::kF32, 4, Seed(19, r)));
  }
  for (const Elements& out : outs) {
    EXPECT_TRUE(HasBitsOf(out, CanonicalReduction(in, Reduction::Sum())));
  }
}

}  // namespace
}  // namespace muonshard::testing
