// Calls on which the ranks disagree: every rank hears of it, and what the two
// calls were. Ranks that wait for each other for ever: every rank hears of it.

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "testing/conformance/collective_conformance.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;

using Call = std::function<absl::StatusOr<Work>(Collective&, const Elements& in,
                                                Elements& out, CallOptions)>;

struct Disagreement {
  std::string name;
  Call ours;    // Of all ranks but the last.
  Call theirs;  // Of the last rank.
};

Call AllReduceCall(int64_t count, const Reduction& reduction) {
  return [=](Collective& group, const Elements& in, Elements& out,
             CallOptions options) {
    return group.AllReduce(in.in(0, count), out.out(0, count), reduction,
                           std::move(options));
  };
}

Call BroadcastCall(Rank root) {
  return [=](Collective& group, const Elements& in, Elements& out,
             CallOptions options) {
    return group.Broadcast(in.in(0, group.rank() == root ? 4 : 0),
                           out.out(0, 4), root, std::move(options));
  };
}

// All segments are of one element, and one has more.
Call AllGatherCall(Rank longer) {
  return [=](Collective& group, const Elements& in, Elements& out,
             CallOptions options) {
    std::vector<int64_t> counts(static_cast<size_t>(group.size()), 1);
    counts[IndexOf(longer)] = 2;
    return group.AllGatherV(in.in(0, counts[IndexOf(group.rank())]),
                            out.out(0, group.size() + 1), counts,
                            std::move(options));
  };
}

Call BarrierCall(uint64_t fingerprint) {
  return
      [=](Collective& group, const Elements&, Elements&, CallOptions options) {
        options.fingerprint = fingerprint;
        return group.Barrier(std::move(options));
      };
}

Call IntegerAllReduceCall(int64_t count) {
  return [=](Collective& group, const Elements& in, Elements& out,
             CallOptions options) {
    ConstBuffer integers = in.in(0, count);
    MutableBuffer results = out.out(0, count);
    integers.type = DataType::kI32;
    results.type = DataType::kI32;
    return group.AllReduce(integers, results, Reduction::Sum(),
                           std::move(options));
  };
}

std::vector<Disagreement> Disagreements() {
  const Call sum_of_4 = AllReduceCall(4, Reduction::Sum());
  return {
      {"kinds", sum_of_4, BroadcastCall(Rank{0})},
      {"kinds without data", BarrierCall(0),
       AllReduceCall(0, Reduction::Sum())},
      {"counts", sum_of_4, AllReduceCall(5, Reduction::Sum())},
      {"types", sum_of_4, IntegerAllReduceCall(4)},
      {"reductions", sum_of_4, AllReduceCall(4, Reduction::Max())},
      {"scales", AllReduceCall(4, Reduction::ScaledSum(0.5)),
       AllReduceCall(4, Reduction::ScaledSum(0.25))},
      {"roots", BroadcastCall(Rank{0}), BroadcastCall(Rank{1})},
      {"segments", AllGatherCall(Rank{0}), AllGatherCall(Rank{1})},
      {"fingerprints", BarrierCall(1), BarrierCall(2)},
  };
}

TEST_P(PeerConformance, RanksThatDisagreeAllHearWhatBothSidesCalled) {
  if (!Promises().mismatch_detected) {
    GTEST_SKIP() << "mismatch_detected is not promised";
  }
  for (const Disagreement& disagreement : Disagreements()) {
    SCOPED_TRACE(disagreement.name);
    const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
      const bool is_odd = world.rank() == last();
      const Elements in = Elements::SmallIntegers(DataType::kF32, 32, 24);
      Elements out(DataType::kF32, 32);
      const Call& call = is_odd ? disagreement.theirs : disagreement.ours;
      const absl::Status ended = Finish(
          world,
          call(world, in, out, {.label = is_odd ? "their-call" : "our-call"}));
      EXPECT_TRUE(out.GuardsAreIntact());
      // It stays so.
      EXPECT_THAT(Finish(world, world.Barrier()), StatusIs(ended.code()));
      EXPECT_THAT(world.Health(), StatusIs(ended.code()));
      return ended;
    });
    EXPECT_THAT(
        results,
        Each(AllOf(
            StatusIs(absl::StatusCode::kFailedPrecondition, "our-call"),
            StatusIs(absl::StatusCode::kFailedPrecondition, "their-call"))));
  }
}

TEST_P(PeerConformance, AMessageOfAnotherLengthThanExpectedIsADisagreement) {
  if (!Promises().mismatch_detected) {
    GTEST_SKIP() << "mismatch_detected is not promised";
  }
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    Elements elements(DataType::kF32, 5);
    if (world.rank() == Rank{0}) {
      // It may have left before anybody sees that it does not fit.
      const absl::Status sent =
          Finish(world, world.Send(elements.in(0, 4), last()));
      return sent.ok() ? Finish(world, world.Barrier()) : sent;
    }
    if (world.rank() == last()) {
      return Finish(world, world.Recv(elements.out(), Rank{0}));
    }
    // The others are not in the message, but in the group that it breaks.
    return Finish(world, world.Barrier());
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kFailedPrecondition)));
}

TEST_P(PeerConformance, TwoRanksThatReceiveFromEachOtherAreADeadlock) {
  if (!Promises().deadlock_detected) {
    GTEST_SKIP() << "deadlock_detected is not promised";
  }
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    Elements elements(DataType::kF32, 4);
    if (world.rank() == Rank{0}) {
      return Finish(world,
                    world.Recv(elements.out(), last(), {.label = "from-last"}));
    }
    if (world.rank() == last()) {
      return Finish(
          world, world.Recv(elements.out(), Rank{0}, {.label = "from-first"}));
    }
    return Finish(world, world.Barrier());
  });
  EXPECT_THAT(
      results,
      Each(
          AllOf(StatusIs(absl::StatusCode::kFailedPrecondition, "from-first"),
                StatusIs(absl::StatusCode::kFailedPrecondition, "from-last"))));
}

// The cycle runs through two groups: the first rank waits in one for the
// others, which wait in the other for it.
TEST_P(PeerConformance, WaitingInTwoGroupsInOppositeOrdersIsADeadlock) {
  if (!Promises().deadlock_detected) {
    GTEST_SKIP() << "deadlock_detected is not promised";
  }
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    absl::StatusOr<std::unique_ptr<Collective>> other = NewSecondGroup(context);
    if (!other.ok()) return other.status();
    Collective& first = context.rank == Rank{0} ? **other : *context.world;
    const absl::Status ended = Finish(first, first.Barrier());
    // Both groups live until every rank has heard.
    if (absl::Status s = context.store.Put(
            "heard-" + std::to_string(ToInt(context.rank)), "yes");
        !s.ok()) {
      return s;
    }
    for (int32_t r = 0; r < size(); ++r) {
      if (absl::Status s = context.store
                               .Get("heard-" + std::to_string(r),
                                    GuardDeadline(context.runtime))
                               .status();
          !s.ok()) {
        return s;
      }
    }
    return ended;
  });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kFailedPrecondition)));
}

// The others compute, which is not waiting: nothing is reported.
TEST_P(PeerConformance, ARankThatIsLateIsNoDeadlock) {
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    Collective& world = *context.world;
    if (context.rank == last()) {
      if (absl::Status s =
              context.store.Get("posted", GuardDeadline(context.runtime))
                  .status();
          !s.ok()) {
        return s;
      }
      for (int i = 0; i < 100; ++i) context.runtime.Yield();
    }
    const absl::StatusOr<Work> work = world.Barrier();
    if (absl::Status s = context.store.Put("posted", "yes"); !s.ok()) return s;
    return Finish(world, work);
  });
  EXPECT_THAT(results, Each(IsOk()));
}

}  // namespace
}  // namespace muonshard::testing
