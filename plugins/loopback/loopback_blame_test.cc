// Who is said to be behind a rank that is missing: the dead, and never a living
// rank that waits for them as well, however the waits lead there.

#include <gmock/gmock.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "plugins/loopback/loopback_test.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// No wait of these programs is long enough to count towards a deadlock.
constexpr char kNobodyDies[] = R"({"poll_ms": 1000000000})";
constexpr char kRank4Dies[] =
    R"({"poll_ms": 1000000000, "faults": "die rank=4 before=2"})";
// Of rank 0; the others have more.
constexpr absl::Duration kPatience = absl::Seconds(1);

absl::Status Recv(RankContext& context, Collective& group, int32_t from) {
  int32_t value = 0;
  const absl::Duration patience =
      context.rank == Rank{0} ? kPatience : 100 * kPatience;
  const auto work =
      group.Recv(MutableBuffer::Of<int32_t>(std::span<int32_t>(&value, 1)),
                 Rank{from}, {.deadline = context.runtime.Now() + patience});
  return WaitFor(context, work);
}

// What a rank does after a split by which ranks 1 to 3 have `trio`.
using Program = std::function<absl::Status(RankContext&, Collective* trio)>;

// Of five ranks: what rank 0 is told.
std::string ToldToRank0(const RuntimeCase& runtime, const char* options,
                        const Program& program) {
  const RankRun run = RunOnRanks(
      {.runtime = runtime, .size = 5, .plugin_options = options},
      [&](RankContext& context) -> absl::Status {
        const int32_t rank = ToInt(context.rank);
        auto trio =
            context.world->Split(rank >= 1 && rank <= 3 ? 0 : -1, /*key=*/0,
                                 "trio", GuardDeadline(context.runtime));
        if (!trio.ok()) return trio.status();
        const absl::Status told = program(context, trio->get());
        // Nobody leaves before rank 0 has been told.
        const std::string key = "told";
        if (rank == 0) {
          if (absl::Status s = context.store.Put(key, "yes"); !s.ok()) return s;
        } else {
          const auto got =
              context.store.Get(key, GuardDeadline(context.runtime));
          if (!got.ok()) return got.status();
        }
        return told;
      });
  return std::string(run.results[0].message());
}

class LoopbackBlameTest : public ::testing::TestWithParam<RuntimeCase> {};

// 1 lacks 2 and 3, 2 lacks 4, and 3 lacks 2, which is rank 1 of the trio and
// has been looked at by then.
TEST_P(LoopbackBlameTest, TwoWaysToTheDeadBlameNobodyOnThem) {
  const std::string told = ToldToRank0(
      GetParam(), kRank4Dies, [](RankContext& context, Collective* trio) {
        switch (ToInt(context.rank)) {
          case 0:
            return Recv(context, *context.world, 1);
          case 1:
            return WaitFor(context, trio->Barrier());
          case 2:
            return Recv(context, *context.world, 4);
          case 3:
            return Recv(context, *trio, 1);
          default:
            return WaitFor(context, context.world->Barrier());
        }
      });
  EXPECT_THAT(told, AllOf(HasSubstr("missing rank 1;"),
                          HasSubstr("; held up by rank 4 of the world [")));
}

// 1 lacks 2 and 3, 2 lacks 1, and 3 lacks 4.
TEST_P(LoopbackBlameTest, ACircleThatLeadsToTheDeadIsNotBlamed) {
  const std::string told = ToldToRank0(
      GetParam(), kRank4Dies, [](RankContext& context, Collective* trio) {
        switch (ToInt(context.rank)) {
          case 0:
            return Recv(context, *context.world, 1);
          case 1:
            return WaitFor(context, trio->Barrier());
          case 2:
            return Recv(context, *context.world, 1);
          case 3:
            return Recv(context, *context.world, 4);
          default:
            return WaitFor(context, context.world->Barrier());
        }
      });
  EXPECT_THAT(told, AllOf(HasSubstr("missing rank 1;"),
                          HasSubstr("; held up by rank 4 of the world [")));
}

// 1 lacks 2, and 2, 3 and 4 lack each other in turn.
TEST_P(LoopbackBlameTest, ACircleOfTheLivingIsBlamedWhole) {
  const std::string told = ToldToRank0(
      GetParam(), kNobodyDies, [](RankContext& context, Collective*) {
        const int32_t lacked[] = {1, 2, 3, 4, 2};
        return Recv(context, *context.world, lacked[ToInt(context.rank)]);
      });
  EXPECT_THAT(told,
              AllOf(HasSubstr("missing rank 1;"),
                    HasSubstr("; held up by ranks 2, 3, 4 of the world [")));
}

// 1 lacks 2, which computes.
TEST_P(LoopbackBlameTest, WhoIsInNoWaitIsBlamed) {
  const std::string told = ToldToRank0(
      GetParam(), kNobodyDies, [](RankContext& context, Collective*) {
        if (ToInt(context.rank) >= 2) return absl::OkStatus();
        return Recv(context, *context.world, ToInt(context.rank) + 1);
      });
  EXPECT_THAT(told, AllOf(HasSubstr("missing rank 1;"),
                          HasSubstr("; held up by rank 2 of the world [")));
}

// 1 lacks 2, which computes; all others lack both.
TEST_P(LoopbackBlameTest, OfSeveralThatAreMissingTheOneBehindItIsBlamed) {
  const std::string told = ToldToRank0(
      GetParam(), kNobodyDies, [](RankContext& context, Collective*) {
        const int32_t rank = ToInt(context.rank);
        if (rank == 1) return Recv(context, *context.world, 2);
        if (rank == 2) return absl::OkStatus();
        return WaitFor(context,
                       context.world->Barrier(
                           {.deadline = context.runtime.Now() + kPatience}));
      });
  EXPECT_THAT(told, HasSubstr("missing ranks 1, 2; held up by rank 2 of the "
                              "world ["));
}

INSTANTIATE_TEST_SUITE_P(
    Sim, LoopbackBlameTest,
    ::testing::Values(RuntimeCase{RuntimeCase::Kind::kSim, 1},
                      RuntimeCase{RuntimeCase::Kind::kSim, 2},
                      RuntimeCase{RuntimeCase::Kind::kSim, 3}),
    RuntimeCaseName);

}  // namespace
}  // namespace muonshard::testing
