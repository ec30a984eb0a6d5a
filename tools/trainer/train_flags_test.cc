#include "tools/trainer/train_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "collectives/job_place.h"

namespace muonshard {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<TrainCommand> Parse(std::vector<absl::string_view> arguments) {
  return ParseTrainFlags(arguments);
}

std::string Error(std::vector<absl::string_view> arguments) {
  const absl::Status status = Parse(arguments).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(TrainFlagsTest, TheDefaultIsMuonOnFourRanksOfOneAxis) {
  const auto command = Parse({});
  ASSERT_TRUE(command.ok());
  EXPECT_EQ(command->options.ranks, 4);
  EXPECT_EQ(command->options.mesh, "sharding=4");
  EXPECT_EQ(command->options.rule, Rule::kMuon);
  EXPECT_TRUE(command->options.overlap);
  EXPECT_TRUE(command->options.deterministic);
  EXPECT_FALSE(command->options.verify);
  EXPECT_EQ(command->options.precision, DataType::kF32);
  EXPECT_FALSE(command->options.scaler);
  EXPECT_EQ(command->options.gather, GatherMode::kLazy);
  EXPECT_EQ(command->options.hierarchy, Hierarchy::kAuto);
  EXPECT_EQ(command->options.lanes_per_node, 0);
  EXPECT_EQ(command->options.shape.experts, 0);
  EXPECT_FALSE(command->help_wanted);
}

TEST(TrainFlagsTest, EveryFlagReachesItsOption) {
  const auto command = Parse({"--plugin=p",        "--plugin-options={}",
                              "--ranks=6",         "--mesh=a=2,b=3",
                              "--steps=9",         "--accumulate=2",
                              "--bucket-mib=0.25", "--overlap=off",
                              "--rule=adamw",      "--lr=0.1",
                              "--adamw-lr=0.2",    "--clip=3",
                              "--seed=11",         "--deterministic=off",
                              "--verify",          "--report=r",
                              "--trace=t",         "--plot=s",
                              "--data=d",          "--interval=7",
                              "--width=64",        "--layers=2",
                              "--heads=8",         "--context=32",
                              "--sequences=5",     "--experts=6",
                              "--precision=bf16",  "--scaler",
                              "--gather=eager",    "--hierarchical=on",
                              "--lanes-per-node",  "3"});
  ASSERT_TRUE(command.ok()) << command.status();
  const TrainOptions& options = command->options;
  EXPECT_EQ(options.plugin, "p");
  EXPECT_EQ(options.plugin_options, "{}");
  EXPECT_EQ(options.ranks, 6);
  EXPECT_EQ(options.mesh, "a=2,b=3");
  EXPECT_EQ(options.steps, 9);
  EXPECT_EQ(options.micro_batches, 2);
  EXPECT_EQ(options.bucket_mib, 0.25);
  EXPECT_FALSE(options.overlap);
  EXPECT_EQ(options.rule, Rule::kAdamW);
  EXPECT_EQ(options.muon_learning_rate, 0.1);
  EXPECT_EQ(options.adamw_learning_rate, 0.2);
  EXPECT_EQ(options.clip_norm, 3);
  EXPECT_EQ(options.seed, 11u);
  EXPECT_FALSE(options.deterministic);
  EXPECT_TRUE(options.verify);
  EXPECT_EQ(options.report_path, "r");
  EXPECT_EQ(options.trace_path, "t");
  EXPECT_EQ(options.plot_path, "s");
  EXPECT_EQ(options.data_path, "d");
  EXPECT_EQ(options.interval, 7);
  EXPECT_EQ(options.shape, (ByteGptShape{64, 2, 8, 32, 6}));
  EXPECT_EQ(options.precision, DataType::kBF16);
  EXPECT_TRUE(options.scaler);
  EXPECT_EQ(options.gather, GatherMode::kEager);
  EXPECT_EQ(options.hierarchy, Hierarchy::kOn);
  EXPECT_EQ(options.lanes_per_node, 3);
  EXPECT_EQ(options.sequences, 5);
}

TEST(TrainFlagsTest, AMeshAloneSaysHowManyRanks) {
  const auto command = Parse({"--mesh=a=2,b=4"});
  ASSERT_TRUE(command.ok());
  EXPECT_EQ(command->options.ranks, 8);
}

TEST(TrainFlagsTest, AMeshOfAnotherSizeThanTheRanksIsRefused) {
  EXPECT_THAT(Error({"--mesh=a=2,b=4", "--ranks=4"}),
              HasSubstr("--mesh: want a product equal to --ranks=4 and at most "
                        "64, got \"a=2,b=4\" of 8 ranks"));
  EXPECT_THAT(Error({"--mesh=a=128"}), HasSubstr("at most 64"));
  EXPECT_THAT(Error({"--mesh=a=0"}), HasSubstr("--mesh: "));
}

TEST(TrainFlagsTest, UnderALauncherRanksAreAsManyAsItStarted) {
  JobPlace place;
  place.launcher = "Open MPI";
  place.size = 6;
  const auto parse = [&place](std::vector<absl::string_view> arguments) {
    return ParseTrainFlags(arguments, place);
  };
  for (const absl::string_view flag : {"--ranks=6", "--mesh=a=2,b=3"}) {
    const auto command = parse({flag});
    ASSERT_TRUE(command.ok()) << command.status();
    EXPECT_EQ(command->options.ranks, 6);
    EXPECT_TRUE(command->options.place.has_value());
  }
  EXPECT_EQ(parse({})->options.mesh, "sharding=6");
  EXPECT_THAT(std::string(parse({"--ranks=4"}).status().message()),
              HasSubstr("--ranks: want 6, as many as Open MPI has started"));
  EXPECT_THAT(std::string(parse({"--mesh=a=4"}).status().message()),
              HasSubstr("equal to --ranks=6"));
}

TEST(TrainFlagsTest, ValuesOutOfRangeAreRefused) {
  EXPECT_THAT(Error({"--ranks=0"}), HasSubstr("[1, 64]"));
  EXPECT_THAT(Error({"--steps=0"}), HasSubstr("--steps"));
  EXPECT_THAT(Error({"--bucket-mib=-1"}),
              HasSubstr("--bucket-mib: want a number in [0, 1048576]"));
  EXPECT_THAT(Error({"--lr=0"}), HasSubstr("--lr"));
  EXPECT_THAT(Error({"--lr=nan"}), HasSubstr("--lr"));
  EXPECT_THAT(Error({"--clip=inf"}), HasSubstr("--clip"));
  EXPECT_THAT(Error({"--rule=sgd"}), HasSubstr("muon or adamw"));
  EXPECT_THAT(Error({"--heads=3"}), HasSubstr("multiple of 3 heads"));
}

TEST(TrainFlagsTest, EveryChoiceReachesItsOption) {
  const auto options_of = [](absl::string_view flag) {
    const auto command = Parse({flag});
    EXPECT_TRUE(command.ok()) << command.status();
    return command->options;
  };
  EXPECT_EQ(options_of("--precision=fp32").precision, DataType::kF32);
  EXPECT_EQ(options_of("--precision=fp16").precision, DataType::kF16);
  EXPECT_EQ(options_of("--hierarchical=off").hierarchy, Hierarchy::kOff);
  EXPECT_EQ(options_of("--hierarchical=auto").hierarchy, Hierarchy::kAuto);
  EXPECT_EQ(options_of("--gather=lazy").gather, GatherMode::kLazy);
  EXPECT_FALSE(options_of("--scaler=off").scaler);
  EXPECT_TRUE(options_of("--scaler=on").scaler);
  EXPECT_THAT(Error({"--precision=fp8"}),
              HasSubstr("--precision: want fp32 or bf16 or fp16, got \"fp8\""));
  EXPECT_THAT(Error({"--hierarchical"}), HasSubstr("want a value, got none"));
  EXPECT_THAT(Error({"--hierarchical=yes"}),
              HasSubstr("--hierarchical: want on or off or auto"));
  EXPECT_THAT(Error({"--gather=late"}), HasSubstr("want eager or lazy"));
  EXPECT_THAT(Error({"--scaler=1"}), HasSubstr("--scaler: want on or off"));
  EXPECT_THAT(Error({"--accumulate=0"}), HasSubstr("[1, 64], got \"0\""));
  EXPECT_THAT(Error({"--lanes-per-node=-1"}), HasSubstr("[0, 64]"));
  EXPECT_THAT(Error({"--clip=-1"}), HasSubstr("--clip"));
}

TEST(TrainFlagsTest, ExpertsDivideOverTheirAxis) {
  EXPECT_TRUE(Parse({"--mesh=sharding=2,ep=3", "--experts=6"}).ok());
  EXPECT_TRUE(Parse({"--mesh=ep=3"}).ok());
  EXPECT_TRUE(Parse({"--mesh=sharding=4", "--experts=3"}).ok());
  EXPECT_THAT(Error({"--mesh=sharding=2,ep=3", "--experts=4"}),
              HasSubstr("--experts: want a multiple of 3, the degree of mesh "
                        "axis ep, got 4"));
  EXPECT_THAT(Error({"--experts=257"}), HasSubstr("[0, 256]"));
}

TEST(TrainFlagsTest, AnOutputThatIsAnotherOutputOrTheDataIsRefused) {
  const std::vector<absl::string_view> flags = {"--data", "--report", "--trace",
                                                "--plot"};
  for (size_t i = 0; i < flags.size(); ++i) {
    for (size_t j = i + 1; j < flags.size(); ++j) {
      EXPECT_THAT(Error({flags[j], "./x", flags[i], "x"}),
                  HasSubstr(absl::StrCat(flags[i], ", ", flags[j],
                                         ": want different files")));
    }
  }
}

TEST(TrainFlagsTest, AnEmptyPathIsRefused) {
  EXPECT_THAT(Error({"--data="}), HasSubstr("--data: want FILE, got"));
  EXPECT_THAT(Error({"--plot", ""}), HasSubstr("--plot: want FILE.svg, got"));
}

TEST(TrainFlagsTest, HelpListsTheFlagsWithTheirDefaults) {
  const auto command = Parse({"--help"});
  ASSERT_TRUE(command.ok());
  EXPECT_TRUE(command->help_wanted);
  const std::string help = TrainHelp();
  EXPECT_THAT(help, HasSubstr("--rule=muon|adamw"));
  EXPECT_THAT(help, HasSubstr("--bucket-mib"));
  EXPECT_THAT(help, HasSubstr("[0.005]"));
  EXPECT_THAT(help, HasSubstr("--hierarchical=on|off|auto"));
  EXPECT_THAT(help, HasSubstr("  ep     with --experts"));
}

}  // namespace
}  // namespace muonshard
