#include "plugins/ucx/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collectives/plugin_abi.h"

namespace muonshard::ucx {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> Bytes(size_t count, int first) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(static_cast<size_t>(first) + i);
  }
  return bytes;
}

// Ranks of one process, each with a mapping of its own of what it shares.
class ChannelTest : public ::testing::Test {
 protected:
  void MakeRanks(int32_t size) {
    for (int32_t rank = 0; rank < size; ++rank) {
      channels_.emplace_back();
      ASSERT_TRUE(Channel::Make(rank, size, &channels_.back()).ok());
    }
    for (int32_t rank = 0; rank < size; ++rank) {
      for (int32_t peer = 0; peer < size; ++peer) {
        if (peer == rank) continue;
        ASSERT_TRUE(At(rank)
                        .Attach(peer, getpid(), At(peer).arena().descriptor())
                        .ok());
      }
    }
  }
  Channel& At(int32_t rank) { return *channels_[static_cast<size_t>(rank)]; }

  bool Send(int32_t from, int32_t to, uint32_t number,
            const std::vector<std::byte>& payload) {
    return At(from).Send(to, {.sequence = 7, .number = number}, payload.data(),
                         payload.size());
  }
  // The payload of the next message, which is released.
  std::vector<std::byte> Receive(int32_t at, int32_t from) {
    const Notice* const notice = At(at).Next(from);
    if (notice == nullptr) return {};
    const std::byte* const payload = At(at).PayloadInChunk(from, *notice);
    std::vector<std::byte> copy(payload, payload + notice->bytes);
    At(at).Take(from);
    At(at).Release(from);
    return copy;
  }

  std::vector<std::unique_ptr<Channel>> channels_;
};

TEST_F(ChannelTest, MessagesOfAPairComeInOrderWithTheirPayloads) {
  MakeRanks(2);
  EXPECT_EQ(At(1).Next(0), nullptr);
  EXPECT_TRUE(Send(0, 1, 0, Bytes(3, 10)));
  EXPECT_TRUE(Send(0, 1, 1, {}));
  EXPECT_TRUE(Send(0, 1, 2, Bytes(kChunkBytes, 20)));
  ASSERT_NE(At(1).Next(0), nullptr);
  EXPECT_EQ(At(1).Next(0)->sequence, 7u);
  EXPECT_EQ(At(1).Next(0)->number, 0u);
  EXPECT_EQ(Receive(1, 0), Bytes(3, 10));
  EXPECT_EQ(At(1).Next(0)->number, 1u);
  EXPECT_EQ(Receive(1, 0), Bytes(0, 0));
  EXPECT_EQ(Receive(1, 0), Bytes(kChunkBytes, 20));
  EXPECT_EQ(At(1).Next(0), nullptr);
  EXPECT_EQ(At(0).Next(1), nullptr);
}

TEST_F(ChannelTest, APayloadIsTheCallersAgainOnceItIsSent) {
  MakeRanks(2);
  std::vector<std::byte> payload = Bytes(100, 1);
  ASSERT_TRUE(Send(0, 1, 0, payload));
  payload.assign(100, std::byte{0});
  EXPECT_EQ(Receive(1, 0), Bytes(100, 1));
}

TEST_F(ChannelTest, APeerThatDoesNotReadKeepsNothingFromTheOthers) {
  MakeRanks(3);
  uint32_t sent = 0;
  while (Send(0, 1, sent, Bytes(8, static_cast<int>(sent)))) ++sent;
  EXPECT_EQ(sent, kChunksPerPeer);
  for (uint32_t number = 0; number < kChunksPerPeer; ++number) {
    EXPECT_TRUE(Send(0, 2, number, Bytes(9, 1))) << number;
  }
  // What it releases is room for as much.
  EXPECT_EQ(Receive(1, 0), Bytes(8, 0));
  EXPECT_TRUE(Send(0, 1, sent, Bytes(8, 100)));
  EXPECT_FALSE(Send(0, 1, sent + 1, Bytes(8, 101)));
}

TEST_F(ChannelTest, NoticesWithoutPayloadHaveARoomOfTheirOwn) {
  MakeRanks(2);
  uint32_t sent = 0;
  while (Send(0, 1, sent, {})) ++sent;
  EXPECT_EQ(sent, kNoticeCount);
  Receive(1, 0);
  EXPECT_TRUE(Send(0, 1, sent, {}));
}

TEST_F(ChannelTest, WhatIsTakenStaysUntilItIsReleased) {
  MakeRanks(2);
  for (uint32_t number = 0; number < kChunksPerPeer; ++number) {
    ASSERT_TRUE(Send(0, 1, number, Bytes(50, static_cast<int>(number))));
  }
  std::vector<const std::byte*> payloads;
  while (const Notice* const notice = At(1).Next(0)) {
    payloads.push_back(At(1).PayloadInChunk(0, *notice));
    At(1).Take(0);
  }
  EXPECT_FALSE(Send(0, 1, 9, Bytes(50, 9)));
  for (size_t i = 0; i < payloads.size(); ++i) {
    EXPECT_EQ(
        std::memcmp(payloads[i], Bytes(50, static_cast<int>(i)).data(), 50), 0);
    At(1).Release(0);
  }
  EXPECT_TRUE(Send(0, 1, 9, Bytes(50, 9)));
}

TEST_F(ChannelTest, APayloadForSeveralPeersIsCopiedOnce) {
  MakeRanks(3);
  const std::vector<std::byte> payload = Bytes(64, 5);
  ASSERT_TRUE(Send(0, 1, 0, payload));
  ASSERT_TRUE(Send(0, 2, 0, payload));
  EXPECT_EQ(At(1).Next(0)->offset, At(2).Next(0)->offset);
  // The one of another message has a place of its own.
  ASSERT_TRUE(Send(0, 1, 1, payload));
  EXPECT_EQ(Receive(1, 0), payload);
  EXPECT_NE(At(1).Next(0)->offset, At(2).Next(0)->offset);
  // Until the last reader has released it.
  EXPECT_EQ(Receive(1, 0), payload);
  ASSERT_TRUE(Send(0, 1, 2, Bytes(64, 77)));
  EXPECT_EQ(Receive(2, 0), payload);
}

TEST_F(ChannelTest, AnExposedPayloadIsToldWhenItIsReleased) {
  MakeRanks(2);
  ASSERT_TRUE(At(0).SendExposed(1, {.sequence = 1}, 3, 4096, 1 << 20));
  ASSERT_TRUE(Send(0, 1, 1, Bytes(1, 1)));
  EXPECT_EQ(At(0).TakeReleased(1), 0u);
  EXPECT_EQ(At(1).Next(0)->window, 3);
  EXPECT_EQ(At(1).Next(0)->offset, 4096u);
  EXPECT_EQ(At(1).Next(0)->bytes, uint64_t{1} << 20);
  At(1).Take(0);
  EXPECT_EQ(At(0).TakeReleased(1), 0u);
  At(1).Release(0);
  EXPECT_EQ(At(0).TakeReleased(1), 1u);
  EXPECT_EQ(At(0).TakeReleased(1), 0u);
}

TEST_F(ChannelTest, APayloadIsReadInTheProcessOfItsSender) {
  MakeRanks(2);
  ASSERT_TRUE(At(1).CanRead(0, At(0).probe_address()));
  const std::vector<std::byte> payload = Bytes(70000, 3);
  EXPECT_FALSE(At(1).CanRead(0, reinterpret_cast<uint64_t>(payload.data())));
  EXPECT_FALSE(At(1).CanRead(0, 0));
  ASSERT_TRUE(At(0).SendExposed(1, {}, kInProcess,
                                reinterpret_cast<uint64_t>(payload.data()),
                                payload.size()));
  std::vector<std::byte> got(payload.size());
  EXPECT_EQ(At(1).ReadInProcess(0, *At(1).Next(0), got.data()), 0);
  EXPECT_EQ(got, payload);
  At(1).Take(0);
  ASSERT_TRUE(At(0).SendExposed(1, {}, kInProcess, 8, 8));
  EXPECT_EQ(At(1).ReadInProcess(0, *At(1).Next(0), got.data()), EFAULT);
}

TEST_F(ChannelTest, APayloadOutsideTheChunksIsNone) {
  MakeRanks(2);
  ASSERT_TRUE(At(0).SendExposed(1, {}, kInChunk, uint64_t{1} << 40, 8));
  EXPECT_EQ(At(1).PayloadInChunk(0, *At(1).Next(0)), nullptr);
  At(1).Take(0);
  ASSERT_TRUE(At(0).SendExposed(1, {}, kInChunk, 0, kChunkBytes + 1));
  EXPECT_EQ(At(1).PayloadInChunk(0, *At(1).Next(0)), nullptr);
}

TEST_F(ChannelTest, TheCallOfAnOperationIsToldInWords) {
  MakeRanks(3);
  plugins::Call call;
  call.kind = MUONSHARD_REDUCE_SCATTER_V;
  call.reduction = {MUONSHARD_F32, MUONSHARD_SUM};
  call.in_count = 7;
  call.out_count = 3;
  call.in_segments = {{0, 1}, {1, 3}, {4, 3}};
  call.label = "bucket 4";
  At(1).Describe(5, call);
  EXPECT_EQ(At(0).CallOf(1, 5), plugins::Describe(call));
  EXPECT_EQ(At(0).CallOf(1, 4), "");
  call.label.assign(1000, 'x');
  At(1).Describe(6, call);
  EXPECT_THAT(At(0).CallOf(1, 6), HasSubstr("xxx"));
  EXPECT_EQ(At(0).CallOf(2, 6), "");
}

TEST_F(ChannelTest, OneOfThoseWhoAskWakesASleeper) {
  MakeRanks(3);
  EXPECT_FALSE(At(0).MustWake(1));
  At(1).BeginSleep();
  EXPECT_FALSE(At(0).MustWake(2));
  EXPECT_TRUE(At(0).MustWake(1));
  EXPECT_FALSE(At(2).MustWake(1));
  At(1).BeginSleep();
  At(1).EndSleep();
  EXPECT_FALSE(At(2).MustWake(1));
}

TEST_F(ChannelTest, ABrokenRankSaysSo) {
  MakeRanks(2);
  EXPECT_FALSE(At(0).IsBroken(1));
  At(1).SetBroken();
  EXPECT_TRUE(At(0).IsBroken(1));
  EXPECT_FALSE(At(1).IsBroken(0));
}

TEST_F(ChannelTest, AHiddenArenaIsOpenedByNobody) {
  std::unique_ptr<Channel> own;
  std::unique_ptr<Channel> peer;
  ASSERT_TRUE(Channel::Make(0, 2, &own).ok());
  ASSERT_TRUE(Channel::Make(1, 2, &peer).ok());
  const int descriptor = own->arena().descriptor();
  own->arena().Hide();
  EXPECT_THAT(peer->Attach(0, getpid(), descriptor).text, HasSubstr("/proc/"));
  EXPECT_FALSE(peer->reaches(0));
  // Nor is one of another group's size.
  std::unique_ptr<Channel> larger;
  ASSERT_TRUE(Channel::Make(0, 3, &larger).ok());
  EXPECT_THAT(peer->Attach(0, getpid(), larger->arena().descriptor()).text,
              HasSubstr("bytes, want"));
}

}  // namespace
}  // namespace muonshard::ucx
