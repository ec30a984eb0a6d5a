#include "testing/conformance/collective_conformance.h"

#include <gmock/gmock.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/conformance/hierarchical_group.h"
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

struct Shape {
  int32_t hosts;
  int32_t lanes;
  int32_t seeds;
};
constexpr Shape kShapes[] = {
    {2, 2, 2}, {3, 2, 1}, {2, 4, 1}, {4, 2, 1}, {4, 4, 0}};

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

std::vector<ConformanceCase> RealTimeConformanceCases(absl::string_view plugin,
                                                      int32_t size_min) {
  std::vector<ConformanceCase> cases = ConformanceCases(plugin, size_min);
  std::erase_if(cases, [](const ConformanceCase& each) {
    return each.runtime.kind != RuntimeCase::Kind::kThreads;
  });
  return cases;
}

std::vector<ConformanceCase> HierarchicalConformanceCases(
    absl::string_view plugin) {
  std::vector<ConformanceCase> cases;
  for (const auto& [hosts, lanes, seeds] : kShapes) {
    for (const RuntimeCase& runtime : BothRuntimes(seeds)) {
      cases.push_back({std::string(plugin), hosts * lanes, runtime, lanes});
    }
  }
  return cases;
}

void PrintTo(const ConformanceCase& conformance_case, std::ostream* out) {
  *out << conformance_case.plugin << " with " << conformance_case.size
       << " ranks, " << conformance_case.lanes << " to a host, on "
       << ToString(conformance_case.runtime);
}

std::string ConformanceCaseName(
    const ::testing::TestParamInfo<ConformanceCase>& info) {
  const auto& [plugin, size, runtime, lanes] = info.param;
  if (lanes == 1) return absl::StrCat("Ranks", size, ToString(runtime));
  return absl::StrCat("Hosts", size / lanes, "Lanes", lanes, ToString(runtime));
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
  return OnEveryRank(
      [&program](RankContext& context) { return program(*context.world); });
}

std::vector<absl::Status> CollectiveConformance::OnEveryRank(
    const std::function<absl::Status(RankContext&)>& program) const {
  const std::function<absl::Status(RankContext&)> on_group =
      [&](RankContext& context) -> absl::Status {
    absl::StatusOr<std::unique_ptr<Collective>> group =
        GroupOver(context, std::move(context.world));
    if (!group.ok()) return group.status();
    context.world = *std::move(group);
    return program(context);
  };
  return RunOnRanks(OptionsOf(GetParam()), on_group).results;
}

absl::StatusOr<std::unique_ptr<Collective>> CollectiveConformance::GroupOver(
    RankContext& context, std::unique_ptr<Collective> whole) const {
  if (lanes() == 1) return whole;
  return NewHierarchy(context, std::move(whole), lanes(), context.plugin,
                      context.plugin);
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

absl::StatusOr<std::unique_ptr<Collective>>
CollectiveConformance::NewSecondGroup(RankContext& context) const {
  absl::StatusOr<std::unique_ptr<Collective>> whole =
      context.plugin.NewGroup({.rank = context.rank,
                               .size = size(),
                               .name = "second",
                               .deadline = GuardDeadline(context.runtime),
                               .store = &context.store});
  if (!whole.ok()) return whole.status();
  return GroupOver(context, *std::move(whole));
}

absl::Status Finish(Collective& group, const absl::StatusOr<Work>& work) {
  if (!work.ok()) return work.status();
  return work->Wait(GuardDeadline(group.runtime()));
}

}  // namespace muonshard::testing
