#include "testing/conformance/collective_conformance.h"

#include <gmock/gmock.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

struct SizeAndSeeds {
  int32_t size;
  int32_t seeds;
};
constexpr SizeAndSeeds kSizes[] = {{1, 1}, {2, 5}, {3, 5},
                                   {4, 2}, {8, 1}, {16, 1}};

RankRunOptions OptionsOf(const ConformanceCase& conformance_case) {
  return {.runtime = conformance_case.runtime,
          .size = conformance_case.size,
          .plugin = conformance_case.plugin};
}

}  // namespace

std::vector<ConformanceCase> ConformanceCases(absl::string_view plugin,
                                              int32_t size_min) {
  std::vector<ConformanceCase> cases;
  for (const auto& [size, seeds] : kSizes) {
    if (size < size_min) continue;
    for (const RuntimeCase& runtime : BothRuntimes(seeds)) {
      cases.push_back({std::string(plugin), size, runtime});
    }
  }
  return cases;
}

void PrintTo(const ConformanceCase& conformance_case, std::ostream* out) {
  *out << conformance_case.plugin << " with " << conformance_case.size
       << " ranks on " << ToString(conformance_case.runtime);
}

std::string ConformanceCaseName(
    const ::testing::TestParamInfo<ConformanceCase>& info) {
  return absl::StrCat("Ranks", info.param.size, ToString(info.param.runtime));
}

Capabilities CollectiveConformance::Promises() const {
  Capabilities promises;
  const std::vector<absl::Status> results = OnEveryRank([&](Collective& world) {
    if (world.rank() == Rank{0}) promises = world.capabilities();
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
  return promises;
}

std::vector<absl::Status> CollectiveConformance::OnEveryRank(
    const std::function<absl::Status(Collective&)>& program) const {
  return RunOnRanks(OptionsOf(GetParam()), program).results;
}

std::vector<absl::Status> CollectiveConformance::OnEveryRank(
    const std::function<absl::Status(RankContext&)>& program) const {
  return RunOnRanks(OptionsOf(GetParam()), program).results;
}

void CollectiveConformance::ExpectExchanges(std::vector<Exchange> exchanges,
                                            Pace pace) const {
  // What the plugin may read, apart from what it should have read.
  std::vector<Exchange> made = exchanges;
  const std::vector<absl::Status> results = OnEveryRank([&](Collective& world) {
    return MakeExchanges(made, world, pace, GuardDeadline(world.runtime()));
  });
  ASSERT_THAT(results, Each(IsOk()));
  for (size_t i = 0; i < made.size(); ++i) {
    for (size_t r = 0; r < ranks(); ++r) {
      SCOPED_TRACE(absl::StrCat(made[i].name, ", rank ", r));
      EXPECT_TRUE(HasBitsOf(made[i].out[r], exchanges[i].want[r]));
      EXPECT_TRUE(HasBitsOf(made[i].in[r], exchanges[i].in[r]));
    }
  }
}

absl::StatusOr<std::unique_ptr<Collective>> NewSecondGroup(
    RankContext& context) {
  return context.plugin.NewGroup({.rank = context.rank,
                                  .size = context.world->size(),
                                  .name = "second",
                                  .deadline = GuardDeadline(context.runtime),
                                  .store = &context.store});
}

absl::Status Finish(Collective& group, const absl::StatusOr<Work>& work) {
  if (!work.ok()) return work.status();
  return work->Wait(GuardDeadline(group.runtime()));
}

}  // namespace muonshard::testing
