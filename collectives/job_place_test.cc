#include "collectives/job_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/threads_runtime.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

using Variables = std::map<std::string, std::string>;

constexpr ProcessIds kIds = {.user = 1000, .parent = 77};

absl::StatusOr<std::optional<JobPlace>> Find(const Variables& variables) {
  return FindJobPlace(
      [&variables](const char* name) -> std::optional<std::string> {
        const auto it = variables.find(name);
        if (it == variables.end()) return std::nullopt;
        return it->second;
      },
      kIds);
}

// `more` wins.
Variables With(Variables more, const Variables& variables) {
  more.insert(variables.begin(), variables.end());
  return more;
}

const Variables& OpenMpi() {
  static const auto& variables =
      *new Variables{{"OMPI_COMM_WORLD_RANK", "2"},
                     {"OMPI_COMM_WORLD_SIZE", "4"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                     {"PMIX_NAMESPACE", "2841640961"}};
  return variables;
}

const Variables& Mpich() {
  static const auto& variables = *new Variables{{"PMI_RANK", "1"},
                                                {"PMI_SIZE", "2"},
                                                {"MPI_LOCALRANKID", "1"},
                                                {"MPI_LOCALNRANKS", "2"}};
  return variables;
}

const Variables& Slurm() {
  static const auto& variables =
      *new Variables{{"SLURM_PROCID", "3"},
                     {"SLURM_NTASKS", "4"},
                     {"SLURM_STEP_NODELIST", "node7"},
                     {"SLURM_JOB_ID", "12"},
                     {"SLURM_STEP_ID", "0"}};
  return variables;
}

const Variables& Torchrun() {
  static const auto& variables =
      *new Variables{{"RANK", "0"},
                     {"WORLD_SIZE", "2"},
                     {"LOCAL_RANK", "0"},
                     {"LOCAL_WORLD_SIZE", "2"},
                     {"MASTER_ADDR", "localhost"},
                     {"MASTER_PORT", "29400"},
                     {"TORCHELASTIC_RUN_ID", "none/1"},
                     {"TORCHELASTIC_RESTART_COUNT", "2"}};
  return variables;
}

const Variables& Own() {
  static const auto& variables =
      *new Variables{{"MUONSHARD_RANK", "5"},
                     {"MUONSHARD_SIZE", "8"},
                     {"MUONSHARD_LOCAL_RANK", "1"},
                     {"MUONSHARD_LOCAL_SIZE", "4"},
                     {"MUONSHARD_STORE", "tcp:[::1]:4000"},
                     {"MUONSHARD_STORE_SECRET", "0123456789abcdef"}};
  return variables;
}

struct Found {
  Variables variables;
  int32_t rank;
  int32_t size;
  int32_t local_rank;
  std::string store;
  std::string secret;
  bool owns_folder;
};

TEST(JobPlaceTest, EachLauncherHasAStore) {
  const std::vector<Found> cases = {
      {Own(), 5, 8, 1, "tcp:[::1]:4000", "0123456789abcdef", false},
      {With({{"MUONSHARD_STORE", "file:/shared"}}, Own()), 5, 8, 1,
       "file:/shared", "0123456789abcdef", false},
      {OpenMpi(), 2, 4, 2, "file:/tmp/muonshard-1000-openmpi-2841640961", "",
       true},
      {With({{"PMIX_NAMESPACE", ""}, {"OMPI_MCA_ess_base_jobid", "9"}},
            OpenMpi()),
       2, 4, 2, "file:/tmp/muonshard-1000-openmpi-9", "", true},
      {With({{"TMPDIR", "/scratch"}}, Mpich()), 1, 2, 1,
       "file:/scratch/muonshard-1000-mpich-of77", "", true},
      {With({{"PMI_JOBID", "a b"}}, Mpich()), 1, 2, 1,
       "file:/tmp/muonshard-1000-mpich-a_b", "", true},
      {Slurm(), 3, 4, 3, "file:/tmp/muonshard-1000-slurm-12-0", "", true},
      {Torchrun(), 0, 2, 0, "file:/tmp/muonshard-1000-torchrun-none_1-29400-2",
       "", true},
      // A name wins over what could be found.
      {With({{"MUONSHARD_STORE", "file:shared"}}, OpenMpi()), 2, 4, 2,
       "file:shared", "", false},
  };
  for (const Found& want : cases) {
    SCOPED_TRACE(want.store);
    const auto place = Find(want.variables);
    ASSERT_THAT(place, IsOk());
    ASSERT_TRUE(place->has_value());
    EXPECT_EQ((*place)->rank, Rank{want.rank});
    EXPECT_EQ((*place)->size, want.size);
    EXPECT_EQ((*place)->local_rank, Rank{want.local_rank});
    EXPECT_EQ(ToString((*place)->store), want.store);
    EXPECT_EQ((*place)->secret, want.secret);
    EXPECT_EQ((*place)->owns_folder, want.owns_folder);
  }
}

TEST(JobPlaceTest, WithoutALauncherThereIsNoPlace) {
  for (const Variables& variables :
       {Variables{}, Variables{{"MUONSHARD_STORE", "file:x"}}}) {
    const auto place = Find(variables);
    ASSERT_THAT(place, IsOk());
    EXPECT_FALSE(place->has_value());
  }
}

struct Refused {
  Variables variables;
  std::string want;
};

TEST(JobPlaceTest, WhatDoesNotLeadToAStoreIsTold) {
  const std::string advice = "MUONSHARD_STORE=tcp:HOST:PORT";
  const std::vector<Refused> cases = {
      {With({{"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}}, OpenMpi()), advice},
      {With({{"SLURM_STEP_NODELIST", "node[1-2]"}}, Slurm()), advice},
      {With({{"SLURM_STEP_NODELIST", "a,b"}}, Slurm()), advice},
      {With({{"SLURM_STEP_NODELIST", ""}}, Slurm()), advice},
      {With({{"SLURM_STEP_ID", ""}}, Slurm()), "job without a name"},
      {With({{"MASTER_PORT", ""}}, Torchrun()), "job without a name"},
      {With({{"MUONSHARD_STORE", ""}}, Own()),
       "muonshard started rank 5 of 8, which may be on another host"},
      {With({{"MUONSHARD_STORE", ""}, {"MUONSHARD_LOCAL_SIZE", "8"}}, Own()),
       "job without a name"},
      {With({{"MUONSHARD_STORE", "tcp:host"}}, Own()), "got no port"},
      {With({{"MUONSHARD_STORE_SECRET", ""}}, Own()),
       "MUONSHARD_STORE_SECRET: want the secret"},
      {With({{"PMI_SIZE", "3"}, {"PMI_RANK", "1"}}, OpenMpi()), "disagree"},
  };
  for (const Refused& refused : cases) {
    EXPECT_THAT(Find(refused.variables),
                StatusIs(absl::StatusCode::kInvalidArgument, refused.want));
  }
}

class JobFolderTest : public ::testing::Test {
 protected:
  JobFolderTest() {
    std::string parent = absl::StrCat(::testing::TempDir(), "/job.XXXXXX");
    EXPECT_NE(mkdtemp(parent.data()), nullptr);
    place_.store.folder = absl::StrCat(parent, "/store");
    place_.owns_folder = true;
  }

  absl::StatusOr<std::unique_ptr<Store>> Open() {
    return OpenJobStore(*runtime_, place_, runtime_->Now() + absl::Minutes(1));
  }

  const std::unique_ptr<Runtime> runtime_ = NewThreadsRuntime();
  JobPlace place_;
};

TEST_F(JobFolderTest, RanksMeetInAFolderThatIsClosedToOthers) {
  const auto one = Open();
  ASSERT_THAT(one, IsOk());
  const auto other = Open();
  ASSERT_THAT(other, IsOk());
  ASSERT_THAT((*one)->Put("key", "value"), IsOk());
  const auto value = (*other)->Get("key", runtime_->Now() + absl::Minutes(1));
  ASSERT_THAT(value, IsOk());
  EXPECT_EQ(*value, "value");
  struct stat found = {};
  ASSERT_EQ(stat(place_.store.folder.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777u, 0700u);
  RemoveJobFolder(place_);
  EXPECT_NE(stat(place_.store.folder.c_str(), &found), 0);
}

TEST_F(JobFolderTest, AFolderThatOthersCanWriteToIsRefused) {
  ASSERT_EQ(mkdir(place_.store.folder.c_str(), 0700), 0);
  ASSERT_EQ(chmod(place_.store.folder.c_str(), 0770), 0);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kPermissionDenied,
                               "closed to others"));
}

TEST_F(JobFolderTest, AFolderThatCannotBeMadeIsTold) {
  place_.store.folder += "/no/such";
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound, "cannot make"));
}

TEST_F(JobFolderTest, AFolderThatAUserNamedIsLeftAlone) {
  place_.owns_folder = false;
  ASSERT_THAT(Open(), IsOk());
  RemoveJobFolder(place_);
  struct stat found = {};
  EXPECT_EQ(stat(place_.store.folder.c_str(), &found), 0);
}

}  // namespace
}  // namespace muonshard
