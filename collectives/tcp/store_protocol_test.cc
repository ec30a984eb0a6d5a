#include "collectives/tcp/store_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "testing/seeded_random.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::SeededRandom;
using ::muonshard::testing::StatusIs;
using ::testing::Optional;

constexpr auto kBad = absl::StatusCode::kInvalidArgument;
constexpr size_t kFrameBytesMax = 4096;

const std::vector<StoreRequest>& SomeRequests() {
  static const auto& requests = *new std::vector<StoreRequest>{
      {.type = StoreRequestType::kPut, .id = 1, .key = "key", .value = "value"},
      {.type = StoreRequestType::kPut, .id = 2, .key = "key", .value = ""},
      {.type = StoreRequestType::kGet, .id = 1u << 31, .key = "a/key"},
      {.type = StoreRequestType::kAdd, .id = 3, .key = "count", .delta = -7},
      {.type = StoreRequestType::kAdd,
       .id = ~uint64_t{0},
       .key = "count",
       .delta = std::numeric_limits<int64_t>::min()},
      {.type = StoreRequestType::kCancel, .id = 4},
      {.type = StoreRequestType::kGoodbye, .id = 0},
  };
  return requests;
}

const std::vector<StoreReply>& SomeReplies() {
  static const auto& replies = *new std::vector<StoreReply>{
      {.type = StoreReplyType::kDone, .id = 1},
      {.type = StoreReplyType::kValue, .id = 2, .value = "a value"},
      {.type = StoreReplyType::kValue, .id = 3, .value = ""},
      {.type = StoreReplyType::kSum, .id = 4, .sum = -1},
      {.type = StoreReplyType::kAbsent, .id = 5},
      {.type = StoreReplyType::kRefused,
       .id = 6,
       .refusal = absl::ResourceExhaustedError("too much")},
  };
  return replies;
}

void ExpectSame(const StoreRequest& got, const StoreRequest& want) {
  EXPECT_EQ(got.type, want.type);
  EXPECT_EQ(got.id, want.id);
  EXPECT_EQ(got.key, want.key);
  EXPECT_EQ(got.value, want.value);
  EXPECT_EQ(got.delta, want.delta);
}

void ExpectSame(const StoreReply& got, const StoreReply& want) {
  EXPECT_EQ(got.type, want.type);
  EXPECT_EQ(got.id, want.id);
  EXPECT_EQ(got.value, want.value);
  EXPECT_EQ(got.sum, want.sum);
  EXPECT_EQ(got.refusal, want.refusal);
}

TEST(StoreProtocol, RequestsComeBack) {
  for (const StoreRequest& request : SomeRequests()) {
    const std::string bytes = EncodeRequest(request);
    const auto frame = FirstFrame(bytes, kFrameBytesMax);
    ASSERT_THAT(frame, IsOk());
    ASSERT_THAT(*frame, Optional(absl::string_view(bytes)));
    const auto parsed = ParseRequest(FrameContent(**frame));
    ASSERT_THAT(parsed, IsOk());
    ExpectSame(*parsed, request);
  }
}

TEST(StoreProtocol, RepliesComeBack) {
  for (const StoreReply& reply : SomeReplies()) {
    const std::string bytes = EncodeReply(reply);
    const auto frame = FirstFrame(bytes, kFrameBytesMax);
    ASSERT_THAT(frame, IsOk());
    ASSERT_THAT(*frame, Optional(absl::string_view(bytes)));
    const auto parsed = ParseReply(FrameContent(**frame));
    ASSERT_THAT(parsed, IsOk());
    ExpectSame(*parsed, reply);
  }
}

TEST(StoreProtocol, AFrameIsAwaitedUntilItsLastByte) {
  const std::string first = EncodeRequest(SomeRequests()[0]);
  const std::string both = first + EncodeRequest(SomeRequests()[2]);
  for (size_t size = 0; size <= both.size(); ++size) {
    const auto frame =
        FirstFrame(absl::string_view(both).substr(0, size), kFrameBytesMax);
    ASSERT_THAT(frame, IsOk());
    if (size < first.size()) {
      EXPECT_EQ(*frame, std::nullopt) << size;
    } else {
      EXPECT_THAT(*frame, Optional(absl::string_view(first))) << size;
    }
  }
}

TEST(StoreProtocol, ALengthIsJudgedBeforeAnythingFollowsIt) {
  const auto length = [](uint32_t bytes) {
    std::string text;
    for (int i = 0; i < 4; ++i) {
      text += static_cast<char>((bytes >> (8 * i)) & 0xff);
    }
    return text;
  };
  EXPECT_THAT(FirstFrame(length(kFrameBytesMax - 4), kFrameBytesMax), IsOk());
  EXPECT_THAT(FirstFrame(length(9), kFrameBytesMax), IsOk());
  for (const uint32_t bad :
       {uint32_t{kFrameBytesMax - 3}, uint32_t{8}, uint32_t{0},
        uint32_t{0x80000000}, uint32_t{0xffffffff}}) {
    EXPECT_THAT(FirstFrame(length(bad), kFrameBytesMax),
                StatusIs(kBad, "a frame of"))
        << bad;
  }
}

// Whatever is cut off a frame, it is refused, or is another frame that is whole
// in itself: a text at the end has no length but the frame's.
TEST(StoreProtocol, ACutFrameIsRefusedOrHasAShorterText) {
  for (const StoreRequest& request : SomeRequests()) {
    const std::string bytes = EncodeRequest(request).substr(4);
    for (size_t size = 0; size < bytes.size(); ++size) {
      const std::string cut = bytes.substr(0, size);
      const auto parsed = ParseRequest(cut);
      if (parsed.ok()) {
        EXPECT_EQ(EncodeRequest(*parsed).substr(4), cut);
      }
      if (size < 9) {
        EXPECT_THAT(parsed, StatusIs(kBad)) << size;
      }
    }
  }
  for (const StoreReply& reply : SomeReplies()) {
    const std::string bytes = EncodeReply(reply).substr(4);
    for (size_t size = 0; size < bytes.size(); ++size) {
      const std::string cut = bytes.substr(0, size);
      const auto parsed = ParseReply(cut);
      if (parsed.ok()) {
        EXPECT_EQ(EncodeReply(*parsed).substr(4), cut);
      }
      if (size < 9) {
        EXPECT_THAT(parsed, StatusIs(kBad)) << size;
      }
    }
  }
}

TEST(StoreProtocol, WhatHasNoTextMayNotGoOn) {
  for (const StoreRequest& request : SomeRequests()) {
    if (request.type != StoreRequestType::kCancel &&
        request.type != StoreRequestType::kGoodbye) {
      continue;
    }
    EXPECT_THAT(ParseRequest(EncodeRequest(request).substr(4) + "x"),
                StatusIs(kBad));
  }
  for (const StoreReply& reply : SomeReplies()) {
    if (reply.type == StoreReplyType::kValue ||
        reply.type == StoreReplyType::kRefused) {
      continue;
    }
    EXPECT_THAT(ParseReply(EncodeReply(reply).substr(4) + "x"), StatusIs(kBad));
  }
}

TEST(StoreProtocol, AKeyThatEndsBehindItsFrameIsRefused) {
  std::string bytes = EncodeRequest(SomeRequests()[0]).substr(4);
  // The key's length, of which 3 key bytes and 5 of the value are there.
  for (int length = 0; length < 256; ++length) {
    bytes[9] = static_cast<char>(length);
    if (length <= 8) {
      EXPECT_THAT(ParseRequest(bytes), IsOk()) << length;
    } else {
      EXPECT_THAT(ParseRequest(bytes), StatusIs(kBad)) << length;
    }
  }
}

TEST(StoreProtocol, AnUnknownTypeIsRefused) {
  for (int type = 0; type < 256; ++type) {
    const std::string bytes =
        std::string(1, static_cast<char>(type)) + std::string(8, '\0');
    if (type < 1 || type > 5) {
      EXPECT_THAT(ParseRequest(bytes), StatusIs(kBad, "unknown type"));
      EXPECT_THAT(ParseReply(bytes), StatusIs(kBad, "unknown type"));
    }
  }
}

TEST(StoreProtocol, ARefusalIsAnErrorAndItsTextIsCut) {
  std::string bytes = EncodeReply(SomeReplies().back()).substr(4);
  bytes[9] = 0;  // Its code: kOk.
  EXPECT_THAT(ParseReply(bytes), StatusIs(kBad));
  const std::string cut =
      EncodeReply({.type = StoreReplyType::kRefused,
                   .refusal = absl::InternalError(std::string(5000, 't'))});
  const auto parsed = ParseReply(FrameContent(cut));
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->refusal,
            absl::InternalError(std::string(kStoreTextBytesMax, 't')));
}

TEST(StoreProtocol, GreetingsComeBackAndTheOtherSidesIsNone) {
  const std::string nonce = "0123456789abcdef";
  for (const StoreSide side : {StoreSide::kClient, StoreSide::kServer}) {
    const std::string bytes = EncodeGreeting(side, nonce);
    ASSERT_EQ(bytes.size(), kStoreGreetingBytes);
    const auto greeting = ParseGreeting(side, bytes);
    ASSERT_THAT(greeting, IsOk());
    EXPECT_EQ(greeting->version, kStoreProtocolVersion);
    EXPECT_EQ(greeting->nonce, nonce);
    const StoreSide other =
        side == StoreSide::kClient ? StoreSide::kServer : StoreSide::kClient;
    EXPECT_THAT(ParseGreeting(other, bytes), StatusIs(kBad));
    EXPECT_THAT(ParseGreeting(side, bytes.substr(1)), StatusIs(kBad));
    EXPECT_THAT(ParseGreeting(side, bytes + "x"), StatusIs(kBad));
    for (size_t i = 0; i < 8; ++i) {
      std::string changed = bytes;
      changed[i] ^= 1;
      EXPECT_THAT(ParseGreeting(side, changed), StatusIs(kBad)) << i;
    }
  }
}

TEST(StoreProtocol, VerdictsComeBack) {
  const std::string proof(kStoreProofBytes, 'p');
  for (const StoreAdmission admission :
       {StoreAdmission::kWelcome, StoreAdmission::kWrongSecret,
        StoreAdmission::kTooManyClients}) {
    const std::string bytes =
        EncodeVerdict({.admission = admission,
                       .value_bytes_max = uint64_t{1} << 40,
                       .proof = proof});
    ASSERT_EQ(bytes.size(), kStoreVerdictBytes);
    const auto verdict = ParseVerdict(bytes);
    ASSERT_THAT(verdict, IsOk());
    EXPECT_EQ(verdict->admission, admission);
    EXPECT_EQ(verdict->value_bytes_max, uint64_t{1} << 40);
    EXPECT_EQ(verdict->proof, proof);
    EXPECT_THAT(ParseVerdict(bytes.substr(1)), StatusIs(kBad));
    EXPECT_THAT(ParseVerdict("\3" + bytes.substr(1)), StatusIs(kBad));
  }
}

TEST(StoreProtocol, RandomBytesAreParsedToWhatEncodesToThemOrRefused) {
  SeededRandom random(1);
  int parsed_count = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(static_cast<size_t>(random.Below(40)), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.Below(256));
    if (!bytes.empty()) bytes[0] = static_cast<char>(random.Below(8));
    if (const auto request = ParseRequest(bytes); request.ok()) {
      EXPECT_EQ(FrameContent(EncodeRequest(*request)), bytes);
      ++parsed_count;
    }
    if (const auto reply = ParseReply(bytes);
        reply.ok() && reply->type != StoreReplyType::kRefused) {
      EXPECT_EQ(FrameContent(EncodeReply(*reply)), bytes);
      ++parsed_count;
    }
  }
  // Otherwise nothing was compared.
  EXPECT_GT(parsed_count, 1000);
}

}  // namespace
}  // namespace muonshard
