#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/trainer/plan_command.h"
#include "tools/trainer/plan_flags.h"
#include "tools/trainer/plugin_command.h"

namespace muonshard {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Outcome {
  int status = 0;
  std::string out;
  std::string errors;
};

using CommandMain = decltype(&PlanMain);

Outcome RunCommand(CommandMain command,
                   std::vector<absl::string_view> arguments) {
  std::ostringstream out;
  std::ostringstream errors;
  const int status = command(arguments, out, errors);
  return {status, out.str(), errors.str()};
}

TEST(PlanCommandTest, AModelOnAMeshHasAPlan) {
  const Outcome plan = RunCommand(&PlanMain, {"--mesh=sharding=4"});
  EXPECT_EQ(plan.status, 0);
  EXPECT_THAT(plan.out, HasSubstr("imbalance"));
  EXPECT_THAT(plan.errors, IsEmpty());
}

TEST(PlanCommandTest, AWrongMeshIsAWrongFlag) {
  const Outcome plan = RunCommand(&PlanMain, {"--mesh=sharding=0"});
  EXPECT_EQ(plan.status, 2);
  EXPECT_THAT(plan.errors, HasSubstr("plan: --mesh: "));
}

TEST(PlanCommandTest, AnUnknownModelIsNamed) {
  const Outcome plan = RunCommand(&PlanMain, {"--model=no-such-model"});
  EXPECT_EQ(plan.status, 1);
  EXPECT_THAT(plan.errors, HasSubstr("no-such-model"));
}

TEST(PlanCommandTest, ExpertsOnSeveralHostsReduceInTwoLevels) {
  const Outcome plan = RunCommand(
      &PlanMain,
      {"--model=deepseek-moe-16b", "--mesh=moe_sharding=2,pp=1,ep=8",
       "--lanes-per-node=4", "--hierarchical=on", "--precision=bf16"});
  EXPECT_EQ(plan.status, 0) << plan.errors;
  EXPECT_THAT(plan.out, HasSubstr("two: 4 hosts of 4 ranks"));
  EXPECT_THAT(plan.out, HasSubstr("f32/bf16"));
}

TEST(PlanCommandTest, PrecisionsAreNamedAsInTraining) {
  const auto classes_of = [](absl::string_view precision,
                             absl::string_view gradient_precision) {
    return RunCommand(&PlanMain, {"--mesh=sharding=4", "--precision", precision,
                                  "--gradient-precision", gradient_precision})
        .out;
  };
  EXPECT_THAT(classes_of("fp32", "bf16"), HasSubstr("bf16/f32"));
  EXPECT_THAT(classes_of("fp16", "fp32"), HasSubstr("f32/f16"));
  const Outcome other = RunCommand(&PlanMain, {"--precision=f16"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.errors, HasSubstr("fp16"));
}

TEST(PlanCommandTest, AHierarchyThatCannotBeIsRefused) {
  const Outcome plan =
      RunCommand(&PlanMain, {"--mesh=ep=12", "--hierarchical=on"});
  EXPECT_EQ(plan.status, 1);
  EXPECT_THAT(plan.errors, HasSubstr("ep"));
}

TEST(PlanCommandTest, AModelCanComeFromAFile) {
  const std::string path = ::testing::TempDir() + "/shapes.json";
  std::ofstream(path) << R"({"parameters": [
      {"name": "up", "shape": [16, 8], "rule": "muon"}]})";
  const Outcome plan =
      RunCommand(&PlanMain, {"--shapes", path, "--mesh=dp=2", "--owners",
                             "--buckets", "--parameters", "--all-ranks"});
  EXPECT_EQ(plan.status, 0) << plan.errors;
  EXPECT_THAT(plan.out, HasSubstr("1 parameters in 1 units, 128 elements"));
  EXPECT_THAT(plan.out, HasSubstr("owned by rank"));
}

TEST(PlanCommandTest, AFileThatIsNotThereIsNamed) {
  const Outcome plan = RunCommand(&PlanMain, {"--shapes=/no/such.json"});
  EXPECT_EQ(plan.status, 1);
  EXPECT_THAT(plan.errors, HasSubstr("--shapes: no such file: \"/no/such"));
}

TEST(PluginCommandTest, ThePromisesOfLoopbackAreShown) {
  const Outcome plugin = RunCommand(&PluginMain, {});
  EXPECT_EQ(plugin.status, 0);
  EXPECT_THAT(plugin.out, HasSubstr("canonical: yes"));
}

TEST(PluginCommandTest, APluginThatDoesNotLoadIsNamed) {
  const Outcome plugin = RunCommand(&PluginMain, {"--plugin=nothing"});
  EXPECT_EQ(plugin.status, 1);
  EXPECT_THAT(plugin.errors, HasSubstr("libmuonshard_nothing.so"));
}

TEST(CommandsTest, EachHasHelpAndRefusesUnknownFlags) {
  for (const CommandMain command : {&PlanMain, &PluginMain}) {
    const Outcome help = RunCommand(command, {"--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.out, HasSubstr("Flags"));
    const Outcome wrong = RunCommand(command, {"--x=1"});
    EXPECT_EQ(wrong.status, 2);
    EXPECT_THAT(wrong.errors, HasSubstr("unknown flag \"--x\""));
  }
}

TEST(PlanFlagsTest, ABucketHoldsAtLeastOneByte) {
  EXPECT_EQ(BucketBytesMax(0), 1);
  EXPECT_EQ(BucketBytesMax(0.5), 512 * 1024);
}

}  // namespace
}  // namespace muonshard
