#include "optimizer/plan_report.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "optimizer/plan.h"
#include "testing/plan_inputs.h"

namespace muonshard {
namespace {

using ::muonshard::testing::AdamW;
using ::muonshard::testing::HostsOfLanes;
using ::muonshard::testing::Muon;
using ::testing::HasSubstr;
using ::testing::Not;

// On hosts of two ranks each.
Plan MakePlan(const std::vector<ParameterSpec>& specs,
              const std::string& mesh) {
  const Mesh parsed = *Mesh::Parse(mesh);
  absl::StatusOr<Plan> plan =
      Plan::Create(specs, parsed, HostsOfLanes(parsed.size(), 2), {});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

TEST(PlanReportTest, ReportSaysWhatIsShardedHow) {
  ParameterSpec expert = Muon("expert", {3, 8, 8});
  expert.roles = {{"ep", AxisRole::kDistinct}};
  ParameterSpec copied = AdamW("copied", {100});
  copied.roles = {{"ep", AxisRole::kReplicate}};
  const std::string report =
      PlanReport(MakePlan({expert, copied, Muon("w", {8, 8})}, "dp=2,ep=2"));
  EXPECT_THAT(report, HasSubstr("4 on 2 hosts, mesh dp=2,ep=2"));
  EXPECT_THAT(report, HasSubstr("2 parameters in 4 units, 256 elements"));
  EXPECT_THAT(report, HasSubstr("1 parameters, 100 elements"));
  EXPECT_THAT(report, HasSubstr("3 in 3 parts, padding 3.371 %"));
  EXPECT_THAT(report, HasSubstr("4, of every gradient sum"));
  EXPECT_THAT(report, HasSubstr("dp,ep"));
  EXPECT_THAT(report, HasSubstr("imbalance"));
  EXPECT_THAT(PlanReport(MakePlan({copied}, "ep=40")),
              HasSubstr("The 16 heaviest of 40 ranks."));
}

TEST(PlanReportTest, ReportShowsRolesLevelsAndWhatTravels) {
  ParameterSpec tied = AdamW("tied", {300});
  tied.roles = {{"pp", AxisRole::kPartial}};
  tied.coordinates = {{"pp", {0, 2}}};
  tied.check_ins = CheckIns::kSyncOnly;
  ParameterSpec layer = Muon("layer", {8, 8});
  layer.roles = {{"pp", AxisRole::kDistinct}};
  const std::string report = PlanReport(MakePlan({tied, layer}, "pp=3,dp=4"));
  EXPECT_THAT(report, HasSubstr("pp=0,2"));
  EXPECT_THAT(report, HasSubstr("reduced by Finish alone"));
  EXPECT_THAT(report, HasSubstr("shards          3  two: 2 hosts of 2 ranks"));
  EXPECT_THAT(report, HasSubstr("replicas        4  one: "));
  EXPECT_THAT(report, HasSubstr("flat, direct"));
  EXPECT_THAT(report, HasSubstr("hierarchy scratch"));
  EXPECT_THAT(report, Not(HasSubstr("owned by rank")));
}

TEST(PlanReportTest, ReportListsWhatIsAskedFor) {
  ParameterSpec layer = Muon("layer", {8, 8});
  layer.roles = {{"pp", AxisRole::kDistinct}};
  const Plan plan = MakePlan({layer, AdamW("v", {40})}, "pp=2,dp=10");
  const std::string report =
      PlanReport(plan, {.parameters = true, .buckets = true, .owners = true});
  EXPECT_THAT(report, HasSubstr("20  pp:distinct              layer"));
  EXPECT_THAT(report, HasSubstr("first parameter"));
  const std::string owners = report.substr(report.find("owned by rank"));
  // The first of each stage.
  EXPECT_THAT(owners, HasSubstr("layer"));
  EXPECT_THAT(owners, HasSubstr("8      8  0,10"));
  EXPECT_THAT(report, HasSubstr("The 16 heaviest of 20 ranks."));
  EXPECT_THAT(PlanReport(plan, {.all_ranks = true}),
              Not(HasSubstr("heaviest of")));
}

}  // namespace
}  // namespace muonshard
