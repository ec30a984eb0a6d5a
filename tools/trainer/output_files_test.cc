#include "tools/trainer/output_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

TEST(OutputFilesTest, CheckingLeavesNoFileBehind) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/absent");
  EXPECT_TRUE(CheckWritable("--report", path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(OutputFilesTest, CheckingKeepsAFileThatIsThere) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/present");
  ASSERT_TRUE(WriteFile("--report", path, "kept").ok());
  EXPECT_TRUE(CheckWritable("--report", path).ok());
  EXPECT_EQ(Read(path), "kept");
  ASSERT_TRUE(WriteFile("--report", path, "new").ok());
  EXPECT_EQ(Read(path), "new");
}

TEST(OutputFilesTest, CheckingALinkToNothingLeavesOnlyTheLink) {
  const std::string target = absl::StrCat(::testing::TempDir(), "/unmade");
  const std::string link = absl::StrCat(::testing::TempDir(), "/to_unmade");
  std::filesystem::create_symlink(target, link);
  EXPECT_TRUE(CheckWritable("--report", link).ok());
  EXPECT_FALSE(std::filesystem::exists(target));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

// Whether the two are found to be one file, in either order.
bool Clash(const std::string& one, const std::string& other) {
  const std::vector<NamedPath> there = {{"--a", one}, {"--b", other}};
  const std::vector<NamedPath> back = {{"--a", other}, {"--b", one}};
  const absl::Status status = CheckDistinct(there);
  EXPECT_EQ(status, CheckDistinct(back).ok() ? absl::OkStatus() : status);
  if (status.ok()) return false;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("--a, --b: want different files"),
            HasSubstr(absl::StrCat("\"", one, "\" and \"", other, "\""))));
  return true;
}

TEST(CheckDistinctTest, OneFileIsFoundUnderWhateverNames) {
  const std::string folder =
      absl::StrCat(::testing::TempDir(), "/whatever_names");
  std::filesystem::create_directories(folder);
  const std::string file = absl::StrCat(folder, "/file");
  ASSERT_TRUE(WriteFile("--a", file, "kept").ok());
  std::filesystem::create_hard_link(file, absl::StrCat(folder, "/hard"));
  std::filesystem::create_symlink("file", absl::StrCat(folder, "/soft"));
  std::filesystem::create_symlink("none", absl::StrCat(folder, "/to_none"));
  EXPECT_TRUE(Clash(file, file));
  EXPECT_TRUE(Clash(file, absl::StrCat(folder, "/./file")));
  EXPECT_TRUE(Clash(file, absl::StrCat(folder, "/hard")));
  EXPECT_TRUE(Clash(file, absl::StrCat(folder, "/soft")));
  EXPECT_TRUE(Clash("not_yet_made", "./not_yet_made"));
  EXPECT_TRUE(
      Clash(absl::StrCat(folder, "/none"), absl::StrCat(folder, "/x/../none")));
  EXPECT_TRUE(
      Clash(absl::StrCat(folder, "/none"), absl::StrCat(folder, "/to_none")));
}

TEST(CheckDistinctTest, DifferentFilesAndAbsentFlagsAreAccepted) {
  EXPECT_FALSE(Clash("not_yet_made", "not_yet_made_either"));
  EXPECT_FALSE(Clash("", ""));
  EXPECT_FALSE(Clash("/no/such/folder/x", "/no/such/x"));
  const std::vector<NamedPath> paths = {
      {"--a", "x"}, {"--b", ""}, {"--c", "y"}, {"--d", "./x"}};
  EXPECT_THAT(std::string(CheckDistinct(paths).message()),
              HasSubstr("--a, --d"));
}

TEST(OutputFilesTest, AFolderThatIsAbsentIsNamedWithItsFlag) {
  for (const absl::Status& status :
       {CheckWritable("--plot", "/no/such/folder/x.svg"),
        WriteFile("--plot", "/no/such/folder/x.svg", "")}) {
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("--plot"), HasSubstr("/no/such/folder/x.svg")));
  }
}

TEST(OutputFilesTest, AFullDeviceIsAnErrorOfTheWrite) {
  EXPECT_FALSE(WriteFile("--plot", "/dev/full", "x").ok());
}

}  // namespace
}  // namespace muonshard
