#include "collectives/plugin_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

absl::Status FromPlugin(muonshard_code code) {
  return StatusFromPlugin(code, EmptyPluginStatus(), "a call", false);
}

TEST(PluginStatusTest, EveryCodeHasItsMeaning) {
  using Code = absl::StatusCode;
  const std::vector<std::pair<muonshard_code, Code>> meanings = {
      {MUONSHARD_E_ARGUMENT, Code::kInvalidArgument},
      {MUONSHARD_E_STATE, Code::kFailedPrecondition},
      {MUONSHARD_E_UNSUPPORTED, Code::kUnimplemented},
      {MUONSHARD_E_MEMORY, Code::kResourceExhausted},
      {MUONSHARD_E_SYSTEM, Code::kInternal},
      {MUONSHARD_E_MISMATCH, Code::kFailedPrecondition},
      {MUONSHARD_E_PEER, Code::kUnavailable},
      {MUONSHARD_E_TIMEOUT, Code::kDeadlineExceeded},
      {MUONSHARD_E_ABORTED, Code::kAborted},
      {MUONSHARD_E_CORRUPT, Code::kDataLoss},
      {MUONSHARD_E_VERSION, Code::kFailedPrecondition},
      {MUONSHARD_E_INTERNAL, Code::kInternal},
      {MUONSHARD_E_DEADLOCK, Code::kFailedPrecondition},
  };
  EXPECT_THAT(FromPlugin(MUONSHARD_OK), IsOk());
  for (const auto& [code, meaning] : meanings) {
    EXPECT_THAT(FromPlugin(code), StatusIs(meaning)) << code;
  }
}

TEST(PluginStatusTest, AnUnknownCodeIsAnInternalErrorThatNamesIt) {
  EXPECT_THAT(FromPlugin(999), StatusIs(absl::StatusCode::kInternal, "999"));
  EXPECT_THAT(FromPlugin(-1), StatusIs(absl::StatusCode::kInternal, "-1"));
  EXPECT_THAT(FromPlugin(MUONSHARD_E_SYSTEM),
              Not(StatusIs(absl::StatusCode::kInternal, "plugin code")));
}

TEST(PluginStatusTest, MeaningsSurviveTheWayThroughAPlugin) {
  for (int i = 0; i <= 16; ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    const absl::StatusCode back = FromPlugin(PluginCode(code)).code();
    switch (code) {
      case absl::StatusCode::kCancelled:
        EXPECT_EQ(back, absl::StatusCode::kAborted);
        break;
      case absl::StatusCode::kUnknown:
      case absl::StatusCode::kNotFound:
      case absl::StatusCode::kAlreadyExists:
      case absl::StatusCode::kPermissionDenied:
      case absl::StatusCode::kOutOfRange:
      case absl::StatusCode::kUnauthenticated:
        EXPECT_EQ(back, absl::StatusCode::kInternal);
        break;
      default:
        EXPECT_EQ(back, code);
    }
  }
}

TEST(PluginStatusTest, TheTextNamesWhatRankOperationAndVendor) {
  muonshard_status status =
      StatusForPlugin(MUONSHARD_E_PEER, "connection reset", 3);
  status.sequence = 17;
  status.vendor_code = 104;
  const absl::Status error = StatusFromPlugin(
      status.code, status, "group \"world\", rank 1: Barrier", true);
  EXPECT_EQ(error.message(),
            "group \"world\", rank 1: Barrier (operation 17): connection reset "
            "[rank 3] [vendor code 104]");
}

TEST(PluginStatusTest, APluginWithoutAReasonIsSaidToHaveNone) {
  EXPECT_THAT(FromPlugin(MUONSHARD_E_PEER),
              StatusIs(absl::StatusCode::kUnavailable, "gave no reason"));
}

TEST(PluginStatusTest, ATextThatDoesNotEndIsReadToItsEnd) {
  muonshard_status status = EmptyPluginStatus();
  std::memset(status.text, 'x', sizeof(status.text));
  const absl::Status error =
      StatusFromPlugin(MUONSHARD_E_PEER, status, "a call", false);
  EXPECT_EQ(error.message(),
            "a call: " + std::string(sizeof(status.text), 'x'));
}

TEST(PluginStatusTest, ATextThatIsTooLongKeepsBothEnds) {
  const size_t room = sizeof(muonshard_status{}.text) - 1;
  const auto kept = [](const std::string& text) {
    return std::string(StatusForPlugin(MUONSHARD_E_PEER, text, -1).text);
  };
  const std::string full(room, 'x');
  EXPECT_EQ(kept(full), full);
  const std::string cut =
      kept("what: " + full + ": rank 5 died [rank 5] [rank 1]");
  EXPECT_EQ(cut.size(), room);
  EXPECT_THAT(cut, StartsWith("what: xx"));
  EXPECT_THAT(cut, HasSubstr("x...x"));
  EXPECT_THAT(cut, EndsWith("xx: rank 5 died [rank 5] [rank 1]"));
}

TEST(PluginStatusTest, ATextThatIsTooLongIsCutBetweenCharacters) {
  const size_t room = sizeof(muonshard_status{}.text) - 1;
  std::string text;
  while (text.size() <= room) text += "\xC3\xA9";
  // At least one of two neighbours would be cut inside a character, at each
  // end.
  for (const char* begin : {"", "y"}) {
    for (const char* end : {"", "z"}) {
      const std::string cut =
          StatusForPlugin(MUONSHARD_E_PEER, begin + text + end, -1).text;
      const std::string whole = "(\xC3\xA9)*";
      EXPECT_THAT(cut, MatchesRegex(begin + whole + "\\.\\.\\." + whole + end));
      EXPECT_GE(cut.size(), room - 2);
    }
  }
}

TEST(PluginStatusTest, AStatusIsGivenToWhoWantsIt) {
  muonshard_status status = EmptyPluginStatus();
  EXPECT_EQ(GiveStatus(absl::DataLossError("flipped bit"), &status),
            MUONSHARD_E_CORRUPT);
  EXPECT_EQ(status.code, MUONSHARD_E_CORRUPT);
  EXPECT_EQ(status.rank, -1);
  EXPECT_STREQ(status.text, "flipped bit");
  EXPECT_EQ(GiveStatus(absl::DataLossError("flipped bit"), nullptr),
            MUONSHARD_E_CORRUPT);
}

}  // namespace
}  // namespace muonshard
