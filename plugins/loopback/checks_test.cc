#include "plugins/loopback/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "collectives/plugin_abi.h"

namespace muonshard::loopback {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr size_t kCount = 12;

class ChecksTest : public ::testing::Test {
 protected:
  ChecksTest() { std::iota(in_.begin(), in_.end(), 1.0f); }

  Call Of(uint32_t kind) {
    Call call;
    call.kind = kind;
    call.reduction.data_type = MUONSHARD_F32;
    call.in = AsBytes(in_);
    call.in_count = kCount;
    call.out = AsBytes(out_);
    call.out_count = kCount;
    return call;
  }

  static std::byte* AsBytes(std::vector<float>& values) {
    return reinterpret_cast<std::byte*>(values.data());
  }

  // Elements that the checks watch.
  static size_t CountOf(const Payload& payload) {
    size_t bytes = 0;
    for (const auto& part : payload) bytes += part.size();
    return bytes / sizeof(float);
  }

  std::vector<float> in_ = std::vector<float>(kCount);
  std::vector<float> out_ = std::vector<float>(kCount);
};

MATCHER(IsNan, "") { return std::isnan(arg); }

TEST_F(ChecksTest, AnOutputOfItsOwnIsPoisonedWhole) {
  const Call call = Of(MUONSHARD_ALL_REDUCE);
  PoisonOutput(call);
  EXPECT_THAT(out_, Each(IsNan()));
  EXPECT_EQ(CountOf(InputOf(call)), kCount);
}

TEST_F(ChecksTest, InPlaceIsLeftAloneByBothChecks) {
  Call call = Of(MUONSHARD_ALL_REDUCE);
  call.out = AsBytes(in_);
  PoisonOutput(call);
  EXPECT_EQ(in_[0], 1);
  EXPECT_EQ(CountOf(InputOf(call)), 0u);
}

TEST_F(ChecksTest, ABroadcastInPlaceReadsWhatItKeeps) {
  Call call = Of(MUONSHARD_BROADCAST);
  call.out = AsBytes(in_);
  PoisonOutput(call);
  EXPECT_EQ(in_[0], 1);
  EXPECT_EQ(CountOf(InputOf(call)), kCount);
}

TEST_F(ChecksTest, NothingBetweenSegmentsIsPoisoned) {
  Call call = Of(MUONSHARD_ALL_TO_ALL_V);
  call.out_segments = {{.first = 0, .count = 3}, {.first = 5, .count = 4}};
  PoisonOutput(call);
  for (const size_t element : {3, 4, 9, 10, 11}) EXPECT_EQ(out_[element], 0);
  for (const size_t element : {0, 2, 5, 8}) {
    EXPECT_THAT(out_[element], IsNan());
  }
}

TEST_F(ChecksTest, TheOwnSegmentOfAGatherInPlaceIsKeptAndTheRestPoisoned) {
  Call call = Of(MUONSHARD_ALL_GATHER_V);
  call.out_segments = {{.first = 0, .count = 6}, {.first = 6, .count = 6}};
  call.in = AsBytes(out_) + 6 * sizeof(float);
  call.in_count = 6;
  PoisonOutput(call);
  for (size_t element = 0; element < 6; ++element) {
    EXPECT_THAT(out_[element], IsNan());
    EXPECT_EQ(out_[element + 6], 0);
  }
  EXPECT_EQ(CountOf(InputOf(call)), 6u);
}

TEST_F(ChecksTest, TheOwnSegmentOfAScatterInPlaceIsNotWatched) {
  Call call = Of(MUONSHARD_REDUCE_SCATTER_V);
  call.in_segments = {{.first = 0, .count = 4}, {.first = 4, .count = 8}};
  call.out = AsBytes(in_);
  call.out_count = 4;
  PoisonOutput(call);
  EXPECT_EQ(in_[0], 1);
  const Payload watched = InputOf(call);
  ASSERT_EQ(CountOf(watched), 8u);
  EXPECT_EQ(watched[0].data(), AsBytes(in_) + 4 * sizeof(float));
}

TEST_F(ChecksTest, NothingIsWatchedOfABarrier) {
  const Call call;
  PoisonOutput(call);
  EXPECT_EQ(CountOf(InputOf(call)), 0u);
}

TEST_F(ChecksTest, MemoryIsPoisonedAndItsGuardsSeeBothSides) {
  constexpr uint64_t kBytes = 100;
  auto* const memory = static_cast<unsigned char*>(NewGuardedMemory(kBytes));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % kMemoryAlignment, 0u);
  for (uint64_t i = 0; i < kBytes; ++i) {
    EXPECT_EQ(memory[i], 0xff);
    memory[i] = 1;
  }
  EXPECT_TRUE(CheckGuards(memory, kBytes).ok());
  for (unsigned char* const outside : {memory - 1, memory + kBytes}) {
    const unsigned char kept = *outside;
    *outside = 1;
    const Outcome found = CheckGuards(memory, kBytes);
    EXPECT_EQ(found.code, MUONSHARD_E_CORRUPT);
    EXPECT_THAT(found.text,
                HasSubstr(outside < memory ? "wrote before the 100"
                                           : "wrote behind the 100"));
    *outside = kept;
  }
  FreeGuardedMemory(memory);
}

}  // namespace
}  // namespace muonshard::loopback
