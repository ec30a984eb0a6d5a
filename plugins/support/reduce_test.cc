#include "plugins/support/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/support/half.h"

namespace muonshard::plugins {
namespace {

template <typename T>
std::vector<T> ReduceAll(const Reduction& reduction,
                         const std::vector<std::vector<T>>& inputs) {
  std::vector<T> out(inputs[0].size());
  std::vector<const std::byte*> pointers;
  for (const std::vector<T>& input : inputs) {
    pointers.push_back(reinterpret_cast<const std::byte*>(input.data()));
  }
  Reduce(reduction, pointers, out.size(),
         reinterpret_cast<std::byte*>(out.data()));
  return out;
}

constexpr uint32_t kFloatingSums[] = {MUONSHARD_SUM, MUONSHARD_AVERAGE,
                                      MUONSHARD_SCALED_SUM};

// Numbers of very different sizes, so that every order has sums of its own.
float Uneven(size_t rank, size_t i) {
  const auto power = static_cast<int>((rank * 7 + i * 3) % 23) - 11;
  const float sign = (rank + i) % 3 == 0 ? -1.0f : 1.0f;
  return sign * std::ldexp(1.0f + 0.37f * static_cast<float>(i % 5), power);
}

// The definition of the canonical result, one element at a time.
template <typename T>
T Canonical(uint32_t kind, T scale, const std::vector<T>& contributions) {
  T sum = contributions[0];
  for (size_t rank = 1; rank < contributions.size(); ++rank) {
    sum = sum + contributions[rank];
  }
  if (kind == MUONSHARD_AVERAGE) {
    return sum * (T{1} / static_cast<T>(contributions.size()));
  }
  return kind == MUONSHARD_SCALED_SUM ? sum * scale : sum;
}

TEST(ReduceTest, SumsAreFoldedFromRankZeroOn) {
  // Left to right the 1 is lost beside 2^25 before 2^25 is taken away; in any
  // other order it stays.
  const std::vector<std::vector<float>> inputs = {{0x1p25f}, {1}, {-0x1p25f}};
  EXPECT_EQ(ReduceAll({MUONSHARD_F32, MUONSHARD_SUM}, inputs),
            std::vector<float>{0});
}

TEST(ReduceTest, EveryCountHasTheCanonicalResultInF32) {
  for (const uint32_t kind : kFloatingSums) {
    // Around the ends of tiles.
    for (const size_t count : {0, 1, 255, 256, 257, 1000}) {
      std::vector<std::vector<float>> inputs(5, std::vector<float>(count));
      for (size_t rank = 0; rank < inputs.size(); ++rank) {
        for (size_t i = 0; i < count; ++i) inputs[rank][i] = Uneven(rank, i);
      }
      const auto out = ReduceAll({MUONSHARD_F32, kind, 0.3}, inputs);
      for (size_t i = 0; i < count; ++i) {
        std::vector<float> column;
        for (const auto& input : inputs) column.push_back(input[i]);
        ASSERT_EQ(out[i], Canonical(kind, 0.3f, column)) << count << " " << i;
      }
    }
  }
}

TEST(ReduceTest, SixteenBitTypesAreFoldedInF32AndRoundedOnce) {
  struct Type {
    uint32_t data_type;
    float (*load)(uint16_t);
    uint16_t (*store)(float);
  };
  for (const Type& type : {Type{MUONSHARD_BF16, &FloatFromBF16, &BF16FromFloat},
                           Type{MUONSHARD_F16, &FloatFromF16, &F16FromFloat}}) {
    for (const uint32_t kind : kFloatingSums) {
      std::vector<std::vector<uint16_t>> inputs(4, std::vector<uint16_t>(300));
      for (size_t rank = 0; rank < inputs.size(); ++rank) {
        for (size_t i = 0; i < 300; ++i) {
          inputs[rank][i] = type.store(Uneven(rank, i));
        }
      }
      const auto out = ReduceAll({type.data_type, kind, 0.3}, inputs);
      for (size_t i = 0; i < 300; ++i) {
        std::vector<float> column;
        for (const auto& input : inputs) column.push_back(type.load(input[i]));
        ASSERT_EQ(out[i], type.store(Canonical(kind, 0.3f, column))) << i;
      }
    }
  }
}

TEST(ReduceTest, F64ScalesInF64) {
  const std::vector<std::vector<double>> inputs = {{0.1}, {0.2}, {0.7}};
  const std::vector<double> column = {0.1, 0.2, 0.7};
  for (const uint32_t kind : kFloatingSums) {
    EXPECT_EQ(ReduceAll({MUONSHARD_F64, kind, 0.1}, inputs)[0],
              Canonical(kind, 0.1, column));
  }
}

TEST(ReduceTest, IntegerSumsWrap) {
  constexpr int32_t kMax32 = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMax64 = std::numeric_limits<int64_t>::max();
  EXPECT_EQ((ReduceAll<int32_t>({MUONSHARD_I32, MUONSHARD_SUM},
                                {{kMax32, -5}, {1, 3}})),
            (std::vector<int32_t>{-kMax32 - 1, -2}));
  EXPECT_EQ((ReduceAll<int64_t>({MUONSHARD_I64, MUONSHARD_SUM},
                                {{kMax64, -5}, {1, 3}})),
            (std::vector<int64_t>{-kMax64 - 1, -2}));
  EXPECT_EQ(
      (ReduceAll<uint8_t>({MUONSHARD_U8, MUONSHARD_SUM}, {{250, 1}, {10, 2}})),
      (std::vector<uint8_t>{4, 3}));
}

TEST(ReduceTest, MinAndMaxKeepTheLargestIntegersExact) {
  // As doubles these two would be the same.
  constexpr int64_t kLarge = int64_t{1} << 60;
  EXPECT_EQ(
      (ReduceAll<int64_t>({MUONSHARD_I64, MUONSHARD_MIN},
                          {{kLarge + 1, -kLarge}, {kLarge, -kLarge - 1}})),
      (std::vector<int64_t>{kLarge, -kLarge - 1}));
  EXPECT_EQ(
      (ReduceAll<int64_t>({MUONSHARD_I64, MUONSHARD_MAX},
                          {{kLarge + 1, -kLarge}, {kLarge, -kLarge - 1}})),
      (std::vector<int64_t>{kLarge + 1, -kLarge}));
}

TEST(ReduceTest, ANanOnAnyRankIsANanInMinAndMax) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const uint32_t kind : {MUONSHARD_MIN, MUONSHARD_MAX}) {
    const auto out =
        ReduceAll<float>({MUONSHARD_F32, kind},
                         {{kNan, 1, 1, 3}, {1, kNan, 1, 2}, {1, 1, kNan, 1}});
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_TRUE(std::isnan(out[1]));
    EXPECT_TRUE(std::isnan(out[2]));
    EXPECT_EQ(out[3], kind == MUONSHARD_MIN ? 1.0f : 3.0f);
  }
}

TEST(ReduceTest, TheOutputMayBeOneOfTheInputs) {
  std::vector<int32_t> left(600, 3);
  std::vector<int32_t> right(600, 4);
  const std::byte* inputs[] = {reinterpret_cast<std::byte*>(left.data()),
                               reinterpret_cast<std::byte*>(right.data())};
  Reduce({MUONSHARD_I32, MUONSHARD_SUM}, inputs, 600,
         reinterpret_cast<std::byte*>(right.data()));
  EXPECT_EQ(right, std::vector<int32_t>(600, 7));
  EXPECT_EQ(left, std::vector<int32_t>(600, 3));
}

// Bits of every kind of number, infinity and NaN, whatever their type.
std::vector<std::byte> AnyBits(size_t bytes, uint64_t seed) {
  std::vector<std::byte> bits(bytes);
  for (std::byte& byte : bits) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(seed >> 56);
  }
  return bits;
}

TEST(ReduceTest, WiderVectorsChangeNoBit) {
  // Odd, and more than a tile; the widest type has 8 bytes.
  constexpr size_t kCount = 777;
  constexpr size_t kBytes = kCount * 8;
  for (const Vectors vectors : {Vectors::kWide, Vectors::kWidest}) {
    if (!Has(vectors)) continue;
    for (const uint32_t type :
         {MUONSHARD_BF16, MUONSHARD_F16, MUONSHARD_F32, MUONSHARD_F64,
          MUONSHARD_I32, MUONSHARD_I64, MUONSHARD_U8}) {
      for (uint32_t kind = MUONSHARD_SUM; kind <= MUONSHARD_SCALED_SUM;
           ++kind) {
        const std::vector<std::vector<std::byte>> inputs = {
            AnyBits(kBytes, type), AnyBits(kBytes, type + 100),
            AnyBits(kBytes, type + 200)};
        const std::vector<const std::byte*> pointers = {
            inputs[0].data(), inputs[1].data(), inputs[2].data()};
        std::vector<std::byte> want(kBytes);
        std::vector<std::byte> got(kBytes);
        const Reduction reduction = {type, kind, 0.3};
        ReduceWith(Vectors::kPlain, reduction, pointers, kCount, want.data());
        ReduceWith(vectors, reduction, pointers, kCount, got.data());
        EXPECT_TRUE(want == got) << "type " << type << ", reduction " << kind
                                 << ", vectors " << static_cast<int>(vectors);
      }
    }
  }
}

}  // namespace
}  // namespace muonshard::plugins
