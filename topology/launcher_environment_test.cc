#include "topology/launcher_environment.h"

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

absl::StatusOr<std::optional<LauncherEnvironment>> Read(
    const Variables& variables) {
  return ReadLauncherEnvironment(
      [&variables](const char* name) -> std::optional<std::string> {
        const auto it = variables.find(name);
        if (it == variables.end()) return std::nullopt;
        return it->second;
      });
}

LauncherEnvironment MustRead(const Variables& variables) {
  const auto environment = Read(variables);
  EXPECT_TRUE(environment.ok()) << environment.status();
  if (!environment.ok() || !environment->has_value()) {
    ADD_FAILURE() << "no complete set was found";
    return {};
  }
  return **environment;
}

std::string Error(const Variables& variables) {
  const absl::Status status = Read(variables).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(LauncherEnvironment, NoVariablesAreNoLauncher) {
  const auto environment = Read({});
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_FALSE(environment->has_value());
}

TEST(LauncherEnvironment, OwnVariablesAreRead) {
  const LauncherEnvironment environment =
      MustRead({{"MUONSHARD_RANK", "5"},
                {"MUONSHARD_SIZE", "8"},
                {"MUONSHARD_LOCAL_RANK", "1"},
                {"MUONSHARD_LOCAL_SIZE", "4"}});
  EXPECT_EQ(environment.launcher, "muonshard");
  EXPECT_EQ(environment.rank, Rank(5));
  EXPECT_EQ(environment.size, 8);
  EXPECT_EQ(environment.local_rank, Rank(1));
  EXPECT_EQ(environment.local_size, 4);
  EXPECT_EQ(environment.master_address, std::nullopt);
}

TEST(LauncherEnvironment, LocalVariablesMayBeAbsent) {
  const LauncherEnvironment environment =
      MustRead({{"MUONSHARD_RANK", "0"}, {"MUONSHARD_SIZE", "1"}});
  EXPECT_EQ(environment.local_rank, std::nullopt);
  EXPECT_EQ(environment.local_size, std::nullopt);
}

TEST(LauncherEnvironment, TorchrunIsReadWithItsMeetingPoint) {
  const LauncherEnvironment environment =
      MustRead({{"RANK", "3"},
                {"WORLD_SIZE", "16"},
                {"LOCAL_RANK", "3"},
                {"LOCAL_WORLD_SIZE", "8"},
                {"MASTER_ADDR", "10.0.0.1"},
                {"MASTER_PORT", "29500"},
                {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_EQ(environment.launcher, "torchrun");
  EXPECT_EQ(environment.rank, Rank(3));
  EXPECT_EQ(environment.size, 16);
  EXPECT_EQ(environment.local_rank, Rank(3));
  EXPECT_EQ(environment.local_size, 8);
  EXPECT_EQ(environment.master_address, "10.0.0.1");
  EXPECT_EQ(environment.master_port, 29500);
  EXPECT_EQ(environment.restart_count, 2);
}

TEST(LauncherEnvironment, OpenMpiIsRead) {
  const LauncherEnvironment environment =
      MustRead({{"OMPI_COMM_WORLD_RANK", "1"},
                {"OMPI_COMM_WORLD_SIZE", "2"},
                {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_EQ(environment.launcher, "Open MPI");
  EXPECT_EQ(environment.rank, Rank(1));
  EXPECT_EQ(environment.size, 2);
  EXPECT_EQ(environment.local_rank, Rank(0));
  EXPECT_EQ(environment.local_size, 1);
}

TEST(LauncherEnvironment, MpichIsRead) {
  const LauncherEnvironment environment = MustRead({{"PMI_RANK", "3"},
                                                    {"PMI_SIZE", "4"},
                                                    {"MPI_LOCALRANKID", "1"},
                                                    {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(environment.launcher, "MPICH");
  EXPECT_EQ(environment.rank, Rank(3));
  EXPECT_EQ(environment.size, 4);
  EXPECT_EQ(environment.local_rank, Rank(1));
  EXPECT_EQ(environment.local_size, 2);
}

TEST(LauncherEnvironment, SlurmIsReadWithItsNodeList) {
  const LauncherEnvironment environment =
      MustRead({{"SLURM_PROCID", "7"},
                {"SLURM_NTASKS", "8"},
                {"SLURM_LOCALID", "3"},
                {"SLURM_STEP_NODELIST", "node[1-2]"}});
  EXPECT_EQ(environment.launcher, "Slurm");
  EXPECT_EQ(environment.rank, Rank(7));
  EXPECT_EQ(environment.size, 8);
  EXPECT_EQ(environment.local_rank, Rank(3));
  EXPECT_EQ(environment.local_size, std::nullopt);
  EXPECT_EQ(environment.node_list, "node[1-2]");
}

TEST(LauncherEnvironment, TheFirstOfTwoSetsThatAgreeWins) {
  const LauncherEnvironment environment = MustRead({{"SLURM_PROCID", "1"},
                                                    {"SLURM_NTASKS", "2"},
                                                    {"PMI_RANK", "1"},
                                                    {"PMI_SIZE", "2"},
                                                    {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(environment.launcher, "MPICH");
  EXPECT_EQ(environment.local_size, 2);
}

TEST(LauncherEnvironment, TwoSetsThatDisagreeAreAnErrorThatNamesBoth) {
  EXPECT_THAT(Error({{"RANK", "1"},
                     {"WORLD_SIZE", "8"},
                     {"SLURM_PROCID", "1"},
                     {"SLURM_NTASKS", "4"}}),
              AllOf(HasSubstr("torchrun says rank 1 of 8"),
                    HasSubstr("Slurm says rank 1 of 4")));
  EXPECT_THAT(Error({{"MUONSHARD_RANK", "0"},
                     {"MUONSHARD_SIZE", "8"},
                     {"PMI_RANK", "1"},
                     {"PMI_SIZE", "8"}}),
              AllOf(HasSubstr("muonshard says rank 0 of 8"),
                    HasSubstr("MPICH says rank 1 of 8")));
}

TEST(LauncherEnvironment, AnIncompleteForeignSetIsPassedOver) {
  const LauncherEnvironment environment = MustRead(
      {{"RANK", "gold"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}});
  EXPECT_EQ(environment.launcher, "Slurm");
}

TEST(LauncherEnvironment, AnEmptyVariableCountsAsAbsent) {
  const auto environment = Read({{"RANK", ""}, {"WORLD_SIZE", "4"}});
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_FALSE(environment->has_value());
}

TEST(LauncherEnvironment, HalfOfOurOwnSetIsAnError) {
  EXPECT_EQ(Error({{"MUONSHARD_RANK", "1"}}),
            "variable MUONSHARD_RANK is set and MUONSHARD_SIZE is not; want "
            "both or neither");
  EXPECT_THAT(Error({{"MUONSHARD_SIZE", "1"}}),
              HasSubstr("MUONSHARD_SIZE is set and MUONSHARD_RANK is not"));
}

TEST(LauncherEnvironment, ANumberOutOfItsRangeIsAnErrorThatNamesTheVariable) {
  const Variables good = {{"RANK", "1"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RESTART_COUNT", "0"}};
  ASSERT_EQ(MustRead(good).rank, Rank(1));
  const struct {
    const char* name;
    const char* value;
    const char* range;
  } cases[] = {
      {"RANK", "one", "from 0 to 3"},
      {"RANK", "4", "from 0 to 3"},
      {"RANK", "-1", "from 0 to 3"},
      {"WORLD_SIZE", "0", "of at least 1"},
      {"WORLD_SIZE", "4294967296", "of at least 1"},
      {"LOCAL_RANK", "2", "from 0 to 1"},
      {"LOCAL_WORLD_SIZE", "5", "from 1 to 4"},
      {"MASTER_PORT", "65536", "from 1 to 65535"},
      {"TORCHELASTIC_RESTART_COUNT", "-1", "of at least 0"},
  };
  for (const auto& bad : cases) {
    Variables variables = good;
    variables[bad.name] = bad.value;
    EXPECT_EQ(Error(variables), std::string("variable ") + bad.name +
                                    ": want a number " + bad.range +
                                    ", got \"" + bad.value + "\"");
  }
}

}  // namespace
}  // namespace muonshard
