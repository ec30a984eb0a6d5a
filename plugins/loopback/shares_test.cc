#include "plugins/loopback/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace muonshard::loopback {
namespace {

constexpr std::atomic<bool> kGoOn{false};

Call I32Call(uint32_t kind, std::vector<int32_t>& in,
             std::vector<int32_t>& out) {
  Call call;
  call.kind = kind;
  call.reduction = {.data_type = MUONSHARD_I32, .kind = MUONSHARD_SUM};
  call.in = reinterpret_cast<const std::byte*>(in.data());
  call.in_count = in.size();
  call.out = reinterpret_cast<std::byte*>(out.data());
  call.out_count = out.size();
  return call;
}

std::vector<const Call*> Pointers(const std::vector<Call>& calls) {
  std::vector<const Call*> pointers;
  for (const Call& call : calls) pointers.push_back(&call);
  return pointers;
}

TEST(SharesTest, EvenSharesCoverAllElementsOnceAndDifferByOne) {
  for (uint64_t count = 0; count < 40; ++count) {
    for (uint64_t shares = 1; shares < 9; ++shares) {
      uint64_t next = 0;
      for (uint64_t index = 0; index < shares; ++index) {
        const Segment share = EvenShare(count, shares, index);
        EXPECT_EQ(share.first, next);
        EXPECT_GE(share.count, count / shares);
        EXPECT_LE(share.count, count / shares + 1);
        next += share.count;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(SharesTest, InPlaceTheOrderOfSharesWithinAPhaseDoesNotMatter) {
  constexpr size_t kRanks = 4;
  constexpr size_t kCount = 10;
  std::vector<int32_t> order(kRanks);
  std::iota(order.begin(), order.end(), 0);
  do {
    std::vector<std::vector<int32_t>> buffers(kRanks);
    std::vector<Call> calls;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      buffers[rank].assign(kCount, static_cast<int32_t>(rank + 1));
      calls.push_back(
          I32Call(MUONSHARD_ALL_REDUCE, buffers[rank], buffers[rank]));
    }
    const auto pointers = Pointers(calls);
    ASSERT_EQ(PhaseCount(MUONSHARD_ALL_REDUCE), 2);
    for (int32_t phase = 0; phase < 2; ++phase) {
      for (const int32_t share : order) RunShare(pointers, phase, share, kGoOn);
    }
    for (const std::vector<int32_t>& buffer : buffers) {
      EXPECT_EQ(buffer, std::vector<int32_t>(kCount, 1 + 2 + 3 + 4));
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(SharesTest, AMessageGoesFromTheFirstCallToTheSecond) {
  std::vector<int32_t> sent = {3, 1, 2};
  std::vector<int32_t> received(3, 0);
  std::vector<int32_t> none;
  const std::vector<Call> calls = {I32Call(MUONSHARD_SEND, sent, none),
                                   I32Call(MUONSHARD_RECV, none, received)};
  ASSERT_EQ(PhaseCount(MUONSHARD_SEND), 1);
  RunShare(Pointers(calls), 0, 1, kGoOn);
  EXPECT_EQ(received, sent);
}

TEST(SharesTest, AShareThatIsToldToStopLeavesTheRest) {
  std::vector<int32_t> in(3, 7);
  std::vector<int32_t> out(3, 0);
  const std::vector<Call> calls = {I32Call(MUONSHARD_ALL_REDUCE, in, out)};
  const std::atomic<bool> stop{true};
  RunShare(Pointers(calls), 0, 0, stop);
  EXPECT_EQ(out, std::vector<int32_t>(3, 0));
}

// What `rank` of `size` has sent to each rank in `calls`.
std::vector<uint64_t> Sent(int32_t rank, int32_t size,
                           const std::vector<Call>& calls) {
  SentBytes sent(rank, size);
  for (const Call& call : calls) sent.Add(call);
  // What was in the entries does not matter.
  std::vector<uint64_t> sent_to(static_cast<size_t>(size), 77);
  sent.Fill(sent_to);
  return sent_to;
}

// What each rank sends in all, for one operation of segments of these counts.
std::vector<uint64_t> SentBy(uint32_t kind,
                             const std::vector<uint64_t>& counts) {
  std::vector<uint64_t> sent;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    Call call;
    call.kind = kind;
    call.reduction.data_type = MUONSHARD_BF16;
    std::vector<Segment> segments;
    for (const uint64_t count : counts) segments.push_back({0, count});
    if (kind == MUONSHARD_REDUCE_SCATTER_V) call.in_segments = segments;
    if (kind == MUONSHARD_ALL_GATHER_V) {
      call.out_segments = segments;
      call.in_count = counts[rank];
    }
    const std::vector<uint64_t> sent_to =
        Sent(static_cast<int32_t>(rank), static_cast<int32_t>(counts.size()),
             {call});
    EXPECT_EQ(sent_to[rank], 0u) << "a rank sends itself nothing";
    sent.push_back(
        std::accumulate(sent_to.begin(), sent_to.end(), uint64_t{0}));
  }
  return sent;
}

TEST(SharesTest, SegmentsAreCountedByTheDirectAlgorithm) {
  constexpr uint64_t kBytes = 2;  // Of a bf16.
  for (const std::vector<uint64_t>& counts :
       {std::vector<uint64_t>{5, 5, 5}, {0, 7, 1}, {4}, {0, 0}}) {
    const uint64_t ranks = counts.size();
    const uint64_t all =
        std::accumulate(counts.begin(), counts.end(), uint64_t{0});
    const auto scattered = SentBy(MUONSHARD_REDUCE_SCATTER_V, counts);
    const auto gathered = SentBy(MUONSHARD_ALL_GATHER_V, counts);
    for (size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(scattered[rank], kBytes * (all - counts[rank]));
      EXPECT_EQ(gathered[rank], kBytes * counts[rank] * (ranks - 1));
    }
  }
}

TEST(SharesTest, AllReduceIsCountedAsItsTwoHalves) {
  // Shares of 10 over 4 are 3, 3, 2, 2: to rank i go its share of the
  // contributions and the own share of the result.
  std::vector<int32_t> buffer(10);
  const Call call = I32Call(MUONSHARD_ALL_REDUCE, buffer, buffer);
  EXPECT_EQ(Sent(3, 4, {call}),
            (std::vector<uint64_t>{4 * (3 + 2), 4 * (3 + 2), 4 * (2 + 2), 0}));
  // Rank 1 has a share of 3; and where all are equal none is longer.
  EXPECT_EQ(Sent(1, 4, {call, call}),
            (std::vector<uint64_t>{2 * 4 * (3 + 3), 0, 2 * 4 * (2 + 3),
                                   2 * 4 * (2 + 3)}));
  EXPECT_EQ(Sent(1, 5, {call}), (std::vector<uint64_t>{16, 0, 16, 16, 16}));
  EXPECT_EQ(Sent(0, 1, {call}), std::vector<uint64_t>{0});
}

TEST(SharesTest, RootedKindsAndMessagesCountWhatTheyMove) {
  std::vector<int32_t> buffer(10);
  std::vector<int32_t> none;
  std::vector<Call> calls = {I32Call(MUONSHARD_REDUCE, buffer, buffer)};
  calls[0].root = 2;
  EXPECT_EQ(Sent(0, 3, calls), (std::vector<uint64_t>{0, 0, 40}));
  calls.push_back(I32Call(MUONSHARD_BROADCAST, buffer, buffer));
  EXPECT_EQ(Sent(0, 3, calls), (std::vector<uint64_t>{0, 40, 80}));
  EXPECT_EQ(Sent(2, 3, calls), (std::vector<uint64_t>{40, 40, 0}));
  calls.push_back(I32Call(MUONSHARD_SEND, buffer, none));
  calls.back().peer = 1;
  EXPECT_EQ(Sent(0, 3, calls), (std::vector<uint64_t>{0, 80, 80}));
  calls.push_back(I32Call(MUONSHARD_RECV, none, buffer));
  calls.push_back(I32Call(MUONSHARD_BARRIER, none, none));
  EXPECT_EQ(Sent(0, 3, calls), (std::vector<uint64_t>{0, 80, 80}));
}

}  // namespace
}  // namespace muonshard::loopback
