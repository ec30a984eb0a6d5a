#include "tools/trainer/text_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TextDataTest : public ::testing::Test {
 protected:
  TextDataTest()
      : folder_(
            std::filesystem::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_);
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  // n bytes 0, 1, 2, ... mod 251.
  static std::string Counting(int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += static_cast<char>(i % 251);
    return text;
  }

  const std::filesystem::path folder_;
};

TEST_F(TextDataTest, TheLastTenthIsHeldOut) {
  const auto data = TextData::FromFile(Write("a", Counting(1000)), 4);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->training().size(), 900u);
  EXPECT_EQ(data->held_out().size(), 100u);
  EXPECT_EQ(data->held_out()[0], 900 % 251);
}

TEST_F(TextDataTest, EveryWindowIsARunOfTheTrainingText) {
  const auto data = TextData::FromFile(Write("a", Counting(1000)), 4);
  ASSERT_TRUE(data.ok());
  const TokenBatch batch = data->DrawBatch({.seed = 1, .step = 2}, 50);
  ASSERT_EQ(batch.tokens.size(), 50u * 5u);
  EXPECT_EQ(batch.context, 4);
  for (size_t w = 0; w < 50; ++w) {
    for (size_t i = 1; i < 5; ++i) {
      EXPECT_EQ(batch.tokens[5 * w + i],
                (batch.tokens[5 * w] + static_cast<int64_t>(i)) % 251);
    }
  }
}

TEST_F(TextDataTest, ABatchDependsOnEachPartOfItsKeyAndOnNothingElse) {
  const auto data = TextData::FromFile(Write("a", Counting(5000)), 4);
  ASSERT_TRUE(data.ok());
  const BatchKey key{.seed = 1, .step = 2, .rank = 3, .micro_batch = 4};
  const auto tokens = [&](const BatchKey& k) {
    return data->DrawBatch(k, 8).tokens;
  };
  EXPECT_EQ(tokens(key), tokens(key));
  for (const BatchKey& other : {BatchKey{9, 2, 3, 4}, BatchKey{1, 9, 3, 4},
                                BatchKey{1, 2, 9, 4}, BatchKey{1, 2, 3, 9}}) {
    EXPECT_NE(tokens(key), tokens(other));
  }
}

TEST_F(TextDataTest, HeldOutWindowsAreSpreadOverTheHeldOutText) {
  const auto data = TextData::FromFile(Write("a", Counting(2510)), 4);
  ASSERT_TRUE(data.ok());
  // 251 held-out bytes have 247 windows.
  std::set<int64_t> starts;
  for (int64_t first = 0; first < 8; first += 2) {
    const TokenBatch batch = data->HeldOutBatch(first, 2, 8);
    starts.insert(batch.tokens[0]);
    starts.insert(batch.tokens[5]);
  }
  const int64_t origin = data->held_out()[0];
  std::set<int64_t> expected;
  for (int64_t i = 0; i < 8; ++i) expected.insert((origin + i * 247 / 8) % 251);
  EXPECT_EQ(starts, expected);
}

TEST_F(TextDataTest, AFolderIsReadByNameWithoutIndices) {
  Write("b", std::string(100, 'b'));
  Write("a", std::string(100, 'a'));
  Write("a.dat", "index");
  Write("a.u8", "link");
  const auto data = TextData::FromFolder(folder_.string(), 4);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->training().size() + data->held_out().size(), 200u);
  EXPECT_EQ(data->training()[0], 'a');
  EXPECT_EQ(data->training()[100], 'b');
}

TEST_F(TextDataTest, AMissingFileIsNamed) {
  const auto data = TextData::FromFile((folder_ / "none").string(), 4);
  EXPECT_EQ(data.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(data.status().message()),
              AllOf(HasSubstr("no such file"), HasSubstr("none")));
}

TEST_F(TextDataTest, WhatIsNoRegularFileIsRefusedUnread) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const auto& [path, kind] :
       {std::pair(folder_.string(), "a folder"),
        std::pair(std::string("/dev/zero"), "a device"),
        std::pair(pipe, "a pipe")}) {
    const auto data = TextData::FromFile(path, 4);
    EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(data.status().message()),
                AllOf(HasSubstr("want a regular file, got "), HasSubstr(kind),
                      HasSubstr(path)));
  }
}

TEST_F(TextDataTest, AFileThatFailsWhileItIsReadIsAnError) {
  // No memory is mapped at address 0, where a read of this file begins.
  const auto data = TextData::FromFile("/proc/self/mem", 4);
  EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(data.status().message()),
              HasSubstr("can be read to its end"));
}

TEST_F(TextDataTest, AnEmptyFileIsNamed) {
  const auto data = TextData::FromFile(Write("empty", ""), 4);
  EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(data.status().message()),
              HasSubstr("is empty; want at least 50 bytes"));
}

TEST_F(TextDataTest, AShortFileIsToldHowManyBytesAreWanted) {
  const auto data = TextData::FromFile(Write("short", Counting(49)), 4);
  EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(data.status().message()),
              HasSubstr("want at least 50 bytes for a context of 4, got 49"));
  const auto enough = TextData::FromFile(Write("enough", Counting(50)), 4);
  ASSERT_TRUE(enough.ok());
  EXPECT_EQ(enough->DrawBatch({}, 3).tokens.size(), 15u);
  EXPECT_EQ(enough->HeldOutBatch(0, 3, 3).tokens.size(), 15u);
}

TEST_F(TextDataTest, AFolderWithoutTextSaysWhatToInstall) {
  const auto data = TextData::FromFolder((folder_ / "none").string(), 4);
  EXPECT_EQ(data.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(data.status().message()),
              AllOf(HasSubstr("fortunes"), HasSubstr("--data")));
}

}  // namespace
}  // namespace muonshard
