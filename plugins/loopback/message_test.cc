#include "plugins/loopback/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace muonshard::loopback {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Damage = Fate::Message;

TEST(MessageTest, EveryByteCountsInTheChecksum) {
  std::vector<std::byte> bytes(21);
  const Payload payload = {std::span(bytes).first(13),
                           std::span(bytes).subspan(13)};
  std::set<uint64_t> sums = {Checksum(payload)};
  for (std::byte& byte : bytes) {
    for (const int bit : {0, 7}) {
      byte = std::byte(1 << bit);
      sums.insert(Checksum(payload));
    }
    byte = std::byte(0);
  }
  EXPECT_EQ(sums.size(), 1 + 2 * bytes.size());
}

TEST(MessageTest, TheOrderOfWordsCounts) {
  const uint64_t words[] = {1, 2};
  const uint64_t swapped[] = {2, 1};
  EXPECT_NE(Checksum({std::as_bytes(std::span(words))}),
            Checksum({std::as_bytes(std::span(swapped))}));
}

TEST(MessageTest, TheSizeIsOfHeadAndPayload) {
  const uint64_t words[] = {1, 2};
  const Payload none;
  const Message empty = MakeMessage(3, none);
  const Message full = MakeMessage(3, {std::as_bytes(std::span(words))});
  EXPECT_EQ(empty.sequence, 3u);
  constexpr uint64_t kSequenceBytesAndChecksum = 3 * sizeof(uint64_t);
  EXPECT_EQ(empty.bytes, kSequenceBytesAndChecksum);
  EXPECT_EQ(full.bytes, empty.bytes + sizeof(words));
}

TEST(MessageTest, OnlyWhatIsDamagedIsRefused) {
  const Message message = MakeMessage(5, {});
  for (const Damage whole : {Damage::kWhole, Damage::kTwice}) {
    EXPECT_TRUE(Deliver(message, whole, "it").ok());
  }
  const Outcome cut = Deliver(message, Damage::kShort, "the message");
  EXPECT_EQ(cut.code, MUONSHARD_E_CORRUPT);
  EXPECT_EQ(cut.sequence, 5u);
  EXPECT_THAT(cut.text,
              AllOf(HasSubstr("the message is damaged"),
                    HasSubstr("want " + std::to_string(message.bytes)),
                    HasSubstr("got " + std::to_string(message.bytes - 1))));
  const Outcome changed = Deliver(message, Damage::kCorrupt, "the message");
  EXPECT_EQ(changed.code, MUONSHARD_E_CORRUPT);
  EXPECT_THAT(changed.text,
              AllOf(HasSubstr("want checksum "), HasSubstr(", got ")));
}

}  // namespace
}  // namespace muonshard::loopback
