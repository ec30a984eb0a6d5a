// NewMemory: memory for buffers, and calls whose buffers lie in it.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/conformance/collective_conformance.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

// Over 64 KiB for each rank, and odd.
constexpr int64_t kCount = 20'011;

using Memory = std::unique_ptr<CollectiveMemory>;

absl::StatusOr<Memory> NewMemory(Collective& group, int64_t bytes) {
  return group.NewMemory(bytes, GuardDeadline(group.runtime()));
}

std::span<float> Floats(const Memory& memory) {
  return {reinterpret_cast<float*>(memory->bytes().data()),
          memory->bytes().size() / sizeof(float)};
}

// Element `i` of what `rank` gives: small integers, whose sums are exact.
float Value(Rank rank, int64_t i) {
  return static_cast<float>((i * 7 + ToInt(rank) * 3) % 16);
}

void Fill(Rank rank, std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = Value(rank, static_cast<int64_t>(i));
  }
}

float SumAt(int32_t size, int64_t i) {
  float sum = 0;
  for (int32_t r = 0; r < size; ++r) sum += Value(Rank{r}, i);
  return sum;
}

// Whether `got` has the sums of all ranks' elements from `first` on.
absl::Status HasSums(int32_t size, int64_t first, std::span<const float> got) {
  for (size_t i = 0; i < got.size(); ++i) {
    const float want = SumAt(size, first + static_cast<int64_t>(i));
    if (got[i] == want) continue;
    return absl::DataLossError(
        absl::StrCat("element ", i, ": want ", want, ", got ", got[i]));
  }
  return absl::OkStatus();
}

// All-reduces, scatters and gathers from `in` to `out`, of size * kCount each.
absl::Status CallAll(Collective& group, std::span<float> in,
                     std::span<float> out) {
  const int32_t size = group.size();
  const auto own = static_cast<int64_t>(ToInt(group.rank())) * kCount;
  const std::vector<int64_t> counts(static_cast<size_t>(size), kCount);
  Fill(group.rank(), in);
  if (absl::Status s =
          Finish(group, group.AllReduce(ConstBuffer::Of<float>(in),
                                        MutableBuffer::Of<float>(out),
                                        Reduction::Sum()));
      !s.ok()) {
    return s;
  }
  if (absl::Status s = HasSums(size, 0, out); !s.ok()) return s;
  const std::span<float> part = out.first(kCount);
  std::fill(out.begin(), out.end(), -1.0f);
  if (absl::Status s =
          Finish(group, group.ReduceScatterV(ConstBuffer::Of<float>(in),
                                             MutableBuffer::Of<float>(part),
                                             counts, Reduction::Sum()));
      !s.ok()) {
    return s;
  }
  if (absl::Status s = HasSums(size, own, part); !s.ok()) return s;
  std::copy(part.begin(), part.end(), in.begin());
  if (absl::Status s = Finish(
          group, group.AllGatherV(ConstBuffer::Of<float>(in.first(kCount)),
                                  MutableBuffer::Of<float>(out), counts));
      !s.ok()) {
    return s;
  }
  return HasSums(size, 0, out);
}

TEST_P(CollectiveConformance, MemoryIsZerosOfWhatSizeEachRankWants) {
  const auto results = OnEveryRank([](Collective& world) -> absl::Status {
    // None on rank 0.
    const int64_t bytes = ToInt(world.rank()) * 10'007;
    const absl::StatusOr<Memory> memory = NewMemory(world, bytes);
    if (!memory.ok()) return memory.status();
    const std::span<std::byte> got = (*memory)->bytes();
    EXPECT_EQ(static_cast<int64_t>(got.size()), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(got.data()) % 64, 0u);
    EXPECT_THAT(std::vector<std::byte>(got.begin(), got.end()),
                Each(std::byte{0}));
    std::fill(got.begin(), got.end(), std::byte{1});
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, LessThanNoMemoryIsRefused) {
  const auto results = OnEveryRank(
      [](Collective& world) { return NewMemory(world, -1).status(); });
  EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kInvalidArgument,
                                     "at least 0 bytes, got -1")));
}

TEST_P(CollectiveConformance, BuffersInMemoryAndOthersGiveTheSameResults) {
  const auto results = OnEveryRank([](Collective& world) -> absl::Status {
    const int64_t count = world.size() * kCount;
    const absl::StatusOr<Memory> a = NewMemory(world, count * 4);
    if (!a.ok()) return a.status();
    const absl::StatusOr<Memory> b = NewMemory(world, count * 4);
    if (!b.ok()) return b.status();
    std::vector<float> ordinary(static_cast<size_t>(count));
    // Ranks need not agree on where their buffers lie.
    const bool swapped = ToInt(world.rank()) % 2 == 1;
    const std::span<float> mixed[] = {Floats(*a), ordinary};
    if (absl::Status s = CallAll(world, Floats(*a), Floats(*b)); !s.ok()) {
      return s;
    }
    if (absl::Status s = CallAll(world, mixed[swapped], mixed[!swapped]);
        !s.ok()) {
      return s;
    }
    std::vector<float> other(static_cast<size_t>(count));
    return CallAll(world, ordinary, other);
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, MemoryIsReducedInPlace) {
  const auto results = OnEveryRank([](Collective& world) -> absl::Status {
    const absl::StatusOr<Memory> memory = NewMemory(world, kCount * 4);
    if (!memory.ok()) return memory.status();
    const std::span<float> values = Floats(*memory);
    // Again and again, so that a rank that reads too late reads what is new.
    for (int round = 0; round < 10; ++round) {
      Fill(world.rank(), values);
      if (absl::Status s =
              Finish(world, world.AllReduce(ConstBuffer::Of<float>(values),
                                            MutableBuffer::Of<float>(values),
                                            Reduction::Sum()));
          !s.ok()) {
        return s;
      }
      if (absl::Status s = HasSums(world.size(), 0, values); !s.ok()) return s;
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, EachRankFreesItsMemoryWhenItLikes) {
  const auto results = OnEveryRank([](Collective& world) -> absl::Status {
    const int64_t count = world.size() * kCount;
    absl::StatusOr<Memory> first = NewMemory(world, count * 4);
    if (!first.ok()) return first.status();
    if (ToInt(world.rank()) % 2 == 1) first->reset();
    const absl::StatusOr<Memory> second = NewMemory(world, count * 4);
    if (!second.ok()) return second.status();
    std::vector<float> ordinary(static_cast<size_t>(count));
    const std::span<float> in =
        *first == nullptr ? std::span<float>(ordinary) : Floats(*first);
    if (absl::Status s = CallAll(world, in, Floats(*second)); !s.ok()) return s;
    first->reset();
    return CallAll(world, Floats(*second), ordinary);
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, MemoryStaysWhenItsGroupIsGone) {
  const auto results = OnEveryRank([](RankContext& context) -> absl::Status {
    const absl::StatusOr<Memory> memory = NewMemory(*context.world, 4096);
    if (!memory.ok()) return memory.status();
    if (absl::Status s = Finish(*context.world, context.world->Barrier());
        !s.ok()) {
      return s;
    }
    context.world.reset();
    const std::span<std::byte> bytes = (*memory)->bytes();
    std::fill(bytes.begin(), bytes.end(), std::byte{7});
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

}  // namespace
}  // namespace muonshard::testing
