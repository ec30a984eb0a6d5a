#include "tools/trainer/train_main.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

class TrainMainTest : public ::testing::Test {
 protected:
  TrainMainTest() {
    const std::filesystem::path folder =
        std::filesystem::path(::testing::TempDir()) /
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder);
    options_.data_path = (folder / "text").string();
    options_.report_path = (folder / "report.json").string();
    std::ofstream(options_.data_path) << std::string(1000, 'x');
    options_.ranks = 2;
    options_.mesh = "sharding=2";
    options_.shape = {.width = 8, .layers = 1, .heads = 1, .context = 4};
    options_.sequences = 1;
    options_.steps = 2;
    options_.verify = true;
  }

  int Main(std::vector<absl::string_view> arguments) {
    return TrainMain(arguments, out_, errors_);
  }

  TrainOptions options_;
  std::ostringstream out_;
  std::ostringstream errors_;
};

TEST_F(TrainMainTest, ARunWhoseBitsAgreeSucceeds) {
  EXPECT_EQ(RunTraining(options_, out_, errors_), 0);
  EXPECT_THAT(errors_.str(), IsEmpty());
  EXPECT_THAT(Read(options_.report_path), HasSubstr("\"different_count\": 0"));
}

TEST_F(TrainMainTest, BitsThatDifferAreAnErrorOnceTheReportIsWritten) {
  options_.fault_for_test = [](int32_t rank, int64_t step, int32_t parameter,
                               std::span<std::byte> gradient) {
    if (rank == 1 && step == 1 && parameter == 0) {
      reinterpret_cast<float*>(gradient.data())['x' * 8] += 0.5f;
    }
    return absl::OkStatus();
  };
  EXPECT_EQ(RunTraining(options_, out_, errors_), 1);
  EXPECT_THAT(errors_.str(), MatchesRegex("train: verify: [1-9][0-9]* elements "
                                          "differ in their bits .*\n"));
  EXPECT_THAT(Read(options_.report_path),
              ::testing::ContainsRegex("\"different_count\": [1-9]"));
}

TEST_F(TrainMainTest, AnErrorOfTheRunIsOneLine) {
  options_.data_path = "/no/such/text";
  EXPECT_EQ(RunTraining(options_, out_, errors_), 1);
  EXPECT_EQ(errors_.str(), "train: data: no such file: \"/no/such/text\"\n");
  EXPECT_FALSE(std::filesystem::exists(options_.report_path));
}

TEST_F(TrainMainTest, WrongFlagsAreToldApartFromARunThatFailed) {
  EXPECT_EQ(Main({"--stepz=3"}), 2);
  EXPECT_THAT(errors_.str(), HasSubstr("train: unknown flag \"--stepz\""));
}

TEST_F(TrainMainTest, TheDataIsNeverOverwritten) {
  EXPECT_EQ(Main({"--data", options_.data_path, "--plot", options_.data_path}),
            2);
  EXPECT_THAT(errors_.str(), HasSubstr("--data, --plot: want different files"));
  EXPECT_EQ(Read(options_.data_path), std::string(1000, 'x'));
}

TEST_F(TrainMainTest, HelpIsNoError) {
  EXPECT_EQ(Main({"-h"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("--bucket-mib"));
  EXPECT_THAT(errors_.str(), IsEmpty());
}

}  // namespace
}  // namespace muonshard
