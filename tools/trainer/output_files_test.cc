#include "tools/trainer/output_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

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
