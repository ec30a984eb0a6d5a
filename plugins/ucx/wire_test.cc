#include "plugins/ucx/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/plugin_abi.h"

namespace muonshard::ucx {
namespace {

using ::testing::HasSubstr;

Head SomeHead() {
  return {.kind = MessageKind::kBreak,
          .sender = 2,
          .sequence = 1u << 20,
          .round = 3,
          .number = 4,
          .digest = 0x0123456789abcdef,
          .bytes = 77,
          .code = MUONSHARD_E_PEER,
          .culprit = 5,
          .text = "rank 5 is gone"};
}

TEST(WireTest, WhatIsEncodedIsDecoded) {
  const Head want = SomeHead();
  Head got;
  ASSERT_TRUE(Decode(Encode(want), 6, &got).ok());
  EXPECT_EQ(got.kind, want.kind);
  EXPECT_EQ(got.sender, want.sender);
  EXPECT_EQ(got.sequence, want.sequence);
  EXPECT_EQ(got.round, want.round);
  EXPECT_EQ(got.number, want.number);
  EXPECT_EQ(got.digest, want.digest);
  EXPECT_EQ(got.bytes, want.bytes);
  EXPECT_EQ(got.code, want.code);
  EXPECT_EQ(got.culprit, want.culprit);
  EXPECT_EQ(got.text, want.text);
}

TEST(WireTest, ALongTextIsCut) {
  Head want = SomeHead();
  want.text = std::string(kTextBytesMax + 100, 'x');
  Head got;
  ASSERT_TRUE(Decode(Encode(want), 6, &got).ok());
  EXPECT_EQ(got.text, std::string(kTextBytesMax, 'x'));
}

TEST(WireTest, AHeadOfAnotherLengthIsRefused) {
  std::vector<std::byte> bytes = Encode(SomeHead());
  Head got;
  bytes.push_back(std::byte{0});
  EXPECT_EQ(Decode(bytes, 6, &got).code, MUONSHARD_E_CORRUPT);
  for (bytes.pop_back(); !bytes.empty();) {
    bytes.pop_back();
    EXPECT_EQ(Decode(bytes, 6, &got).code, MUONSHARD_E_CORRUPT) << bytes.size();
  }
}

TEST(WireTest, ASenderOutsideTheGroupIsRefused) {
  Head got;
  for (const int32_t sender : {-1, 6}) {
    Head head = SomeHead();
    head.sender = sender;
    const plugins::Outcome read = Decode(Encode(head), 6, &got);
    EXPECT_EQ(read.code, MUONSHARD_E_CORRUPT);
    EXPECT_THAT(read.text, HasSubstr("want a sender in [0, 6)"));
  }
}

TEST(WireTest, AnotherKindOrVersionIsRefused) {
  Head got;
  for (const int kind : {0, 6, 255}) {
    Head head = SomeHead();
    head.kind = static_cast<MessageKind>(kind);
    EXPECT_THAT(Decode(Encode(head), 6, &got).text, HasSubstr("no kind"));
  }
  std::vector<std::byte> bytes = Encode(SomeHead());
  bytes[0] ^= std::byte{1};
  EXPECT_THAT(Decode(bytes, 6, &got).text, HasSubstr("another version"));
}

TEST(WireTest, AGroupIsBrokenByAnErrorAndByARankOfIt) {
  Head got;
  Head head = SomeHead();
  head.kind = MessageKind::kBreak;
  head.code = MUONSHARD_E_PEER;
  head.culprit = 5;
  EXPECT_TRUE(Decode(Encode(head), 6, &got).ok());
  EXPECT_THAT(Decode(Encode(head), 5, &got).text, HasSubstr("culprit"));
  head.culprit = -2;
  EXPECT_THAT(Decode(Encode(head), 6, &got).text, HasSubstr("culprit"));
  head.culprit = -1;
  for (const int code : {int{MUONSHARD_OK}, int{MUONSHARD_IN_PROGRESS}, -1}) {
    head.code = code;
    EXPECT_THAT(Decode(Encode(head), 6, &got).text, HasSubstr("no error"));
  }
}

}  // namespace
}  // namespace muonshard::ucx
