// What the option "checks" finds, through the loader and on both runtimes.

#include <gmock/gmock.h>

#include <cmath>

#include "plugins/loopback/loopback_test.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

constexpr char kChecks[] = "{\"checks\": 1}";

MATCHER(IsNan, "") { return std::isnan(arg); }

// Rank 1 posts, does something, and only then rank 0 posts.
absl::Status AllReduceInTurn(RankContext& context, const std::vector<float>& in,
                             std::vector<float>& out,
                             const std::function<void()>& meanwhile) {
  if (context.rank == Rank{0}) {
    const auto go = context.store.Get("rank1", GuardDeadline(context.runtime));
    if (!go.ok()) return go.status();
  }
  const auto work = context.world->AllReduce(ConstBuffer::Of<float>(in),
                                             MutableBuffer::Of<float>(out),
                                             Reduction::Sum(), {.label = "w"});
  if (context.rank == Rank{1}) {
    meanwhile();
    if (absl::Status s = context.store.Put("rank1", "yes"); !s.ok()) {
      return s;
    }
  }
  const absl::Status ended = WaitFor(context, work);
  if (absl::Status s = MeetInStore(context, 2, "over"); !s.ok()) return s;
  return ended;
}

TEST_P(LoopbackTest, AnOutputIsPoisonUntilItsOperationHasEnded) {
  for (const char* options : {kChecks, "{\"checks\": 1, \"small_bytes\": 0}"}) {
    const auto results = Run(
        2,
        [](RankContext& context) -> absl::Status {
          const std::vector<float> in(9, 2);
          std::vector<float> out(9, 7);
          const absl::Status ended = AllReduceInTurn(
              context, in, out, [&] { EXPECT_THAT(out, Each(IsNan())); });
          EXPECT_THAT(out, Each(4));
          return ended;
        },
        options);
    EXPECT_THAT(results, Each(IsOk()));
  }
}

TEST_P(LoopbackTest, WithoutChecksAnOutputIsLeftAlone) {
  const auto results = Run(2, [](RankContext& context) -> absl::Status {
    const std::vector<float> in(9, 2);
    std::vector<float> out(9, 7);
    return AllReduceInTurn(context, in, out,
                           [&] { EXPECT_THAT(out, Each(7)); });
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(LoopbackTest, WhoWritesToAnInputInUseIsNamedToAll) {
  for (const char* options : {kChecks, "{\"checks\": 1, \"small_bytes\": 0}"}) {
    const auto results = Run(
        2,
        [](RankContext& context) -> absl::Status {
          std::vector<float> in(9, 2);
          std::vector<float> out(9);
          return AllReduceInTurn(context, in, out, [&] { in[8] = 3; });
        },
        options);
    EXPECT_THAT(results,
                Each(StatusIs(absl::StatusCode::kDataLoss,
                              "operation 0 (AllReduce \"w\") of group "
                              "\"world\": the caller wrote to the input of "
                              "rank 1 before the operation had ended")));
  }
}

TEST_P(LoopbackTest, AnInPlaceOperationIsNoWriteOfTheCaller) {
  const auto results = Run(
      2,
      [](RankContext& context) -> absl::Status {
        std::vector<float> buffer(9, 2);
        const absl::Status ended = AllReduceInTurn(
            context, buffer, buffer, [&] { EXPECT_THAT(buffer, Each(2)); });
        EXPECT_THAT(buffer, Each(4));
        return ended;
      },
      kChecks);
  EXPECT_THAT(results, Each(IsOk()));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, LoopbackTest,
                         ::testing::ValuesIn(BothRuntimes(4)), RuntimeCaseName);

}  // namespace
}  // namespace muonshard::testing
