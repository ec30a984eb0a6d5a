#include "optimizer/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/rank_harness.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::GuardDeadline;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::RunOnRanks;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::StatusIs;
using ::testing::Each;

class AgreementTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  // The result on each rank when rank r brings errors[r] and lines[r].
  std::vector<absl::Status> Agree(
      const std::vector<absl::Status>& errors,
      const std::vector<std::vector<std::string>>& lines) {
    return RunOnRanks({.runtime = GetParam(),
                       .size = static_cast<int32_t>(lines.size())},
                      [&](Collective& world) {
                        const auto r = static_cast<size_t>(ToInt(world.rank()));
                        return AgreeOnLines(world, errors[r], lines[r],
                                            GuardDeadline(world.runtime()));
                      })
        .results;
  }
};

TEST_P(AgreementTest, RanksWithTheSameLinesAgree) {
  const std::vector<std::string> lines = {"a=1", "b=2"};
  EXPECT_THAT(Agree({{}, {}, {}}, {lines, lines, lines}), Each(IsOk()));
  EXPECT_THAT(Agree({{}}, {{}}), Each(IsOk()));
}

TEST_P(AgreementTest, EveryRankIsToldTheFirstLineThatDiffers) {
  EXPECT_THAT(Agree({{}, {}, {}}, {{"a=1", "b=2", "c=3"},
                                   {"a=1", "b=2", "c=4"},
                                   {"a=1", "b=9", "c=3"}}),
              Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                            "rank 0 has \"b=2\", rank 2 has \"b=9\"")));
}

TEST_P(AgreementTest, ALineThatIsMissingDiffersFromOneThatIsThere) {
  EXPECT_THAT(Agree({{}, {}}, {{"a=1"}, {"a=1", "b=2"}}),
              Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                            "rank 0 has \"nothing\", rank 1 has \"b=2\"")));
  EXPECT_THAT(Agree({{}, {}}, {{"a=1", "b=2"}, {}}),
              Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                            "rank 0 has \"a=1\", rank 1 has \"nothing\"")));
}

TEST_P(AgreementTest, TheErrorOfOneRankBecomesTheErrorOfAll) {
  const std::vector<std::string> lines = {"a=1"};
  EXPECT_THAT(Agree({{}, absl::InvalidArgumentError("no such axis"), {}},
                    {lines, {}, lines}),
              Each(StatusIs(absl::StatusCode::kInvalidArgument,
                            "rank 1: no such axis")));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, AgreementTest,
                         ::testing::ValuesIn(testing::BothRuntimes(3)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
