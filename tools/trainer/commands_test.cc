#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
