#include "collectives/tcp/store_contents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;
using ::testing::IsNull;
using ::testing::Pointee;

constexpr auto kFull = absl::StatusCode::kResourceExhausted;

TEST(TcpStoreContents, AFullSetOfKeysTakesNoNewOneButGoesOnWithTheOld) {
  TcpStoreContents contents({.key_count_max = 2});
  ASSERT_THAT(contents.Put("value", "1"), IsOk());
  ASSERT_THAT(contents.Add("counter", 1), IsOk());
  EXPECT_THAT(contents.Put("other", "1"), StatusIs(kFull, "at most 2 keys"));
  EXPECT_THAT(contents.Add("value", 1), StatusIs(kFull, "at most 2 keys"));
  EXPECT_THAT(contents.Find("other"), IsNull());
  EXPECT_THAT(contents.Put("value", "2"), IsOk());
  EXPECT_EQ(*contents.Add("counter", 1), 2);
  EXPECT_THAT(contents.Find("value"), Pointee(std::string("2")));
}

TEST(TcpStoreContents, ALongValueIsRefusedAndTheOldOneStays) {
  TcpStoreContents contents({.value_bytes_max = 4});
  ASSERT_THAT(contents.Put("key", "1234"), IsOk());
  EXPECT_THAT(contents.Put("key", "12345"), StatusIs(kFull, "at most 4 bytes"));
  EXPECT_THAT(contents.Find("key"), Pointee(std::string("1234")));
}

TEST(TcpStoreContents, BytesOfKeysAndValuesAreCountedAndGivenBack) {
  TcpStoreContents contents({.stored_bytes_max = 20});
  ASSERT_THAT(contents.Put("key", "1234567"), IsOk());  // 10 bytes.
  EXPECT_THAT(contents.Put("key2", "1234567"), StatusIs(kFull, "20 bytes"));
  EXPECT_THAT(contents.Find("key2"), IsNull());
  ASSERT_THAT(contents.Put("key2", "123456"), IsOk());  // 20 bytes.
  EXPECT_THAT(contents.Add("c", 1), StatusIs(kFull));
  EXPECT_THAT(contents.Put("key2", "1234567"), StatusIs(kFull));
  ASSERT_THAT(contents.Put("key", ""), IsOk());  // 13 bytes.
  EXPECT_THAT(contents.Put("key2", "1234567890123"), IsOk());
  EXPECT_THAT(contents.Put("key", "1"), StatusIs(kFull));
  ASSERT_THAT(contents.Put("key2", "1234"), IsOk());  // 11 bytes.
  EXPECT_THAT(contents.Add("cc", 1), StatusIs(kFull));
  EXPECT_THAT(contents.Add("c", 1), IsOk());  // 20 bytes.
}

TEST(TcpStoreContents, ASumBeyond64BitsIsRefused) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  TcpStoreContents contents({});
  EXPECT_EQ(*contents.Add("up", kMost), kMost);
  EXPECT_THAT(contents.Add("up", 1),
              StatusIs(absl::StatusCode::kInvalidArgument, "\"up\""));
  EXPECT_EQ(*contents.Add("up", 0), kMost);
  EXPECT_EQ(*contents.Add("down", -kMost), -kMost);
  EXPECT_THAT(contents.Add("down", -2),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(*contents.Add("down", -1), -kMost - 1);
}

TEST(TcpStoreLimits, ThatMakeNoSenseAreRefusedByName) {
  EXPECT_THAT(CheckTcpStoreLimits({}), IsOk());
  const auto expect_bad = [](const char* name,
                             const std::function<void(TcpStoreLimits&)>& set) {
    TcpStoreLimits limits;
    set(limits);
    EXPECT_THAT(CheckTcpStoreLimits(limits),
                StatusIs(absl::StatusCode::kInvalidArgument, name));
  };
  expect_bad("value_bytes_max", [](auto& l) { l.value_bytes_max = 0; });
  expect_bad("value_bytes_max",
             [](auto& l) { l.value_bytes_max = (size_t{1} << 30) + 1; });
  expect_bad("key_count_max", [](auto& l) { l.key_count_max = 0; });
  expect_bad("stored_bytes_max", [](auto& l) { l.stored_bytes_max = 0; });
  expect_bad("client_count_max", [](auto& l) { l.client_count_max = 0; });
  expect_bad("stranger_count_max", [](auto& l) { l.stranger_count_max = -1; });
  expect_bad("stranger_timeout",
             [](auto& l) { l.stranger_timeout = absl::ZeroDuration(); });
}

}  // namespace
}  // namespace muonshard
