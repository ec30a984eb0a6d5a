#include "plugins/support/reduce.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "collectives/plugin_abi.h"
#include "plugins/support/half.h"

namespace muonshard::plugins {
namespace {

// How a type lies in memory and what it is folded in.
template <typename T>
struct Plain {
  using Stored = T;
  using Folded = T;
  static T Load(T value) { return value; }
  static T Store(T value) { return value; }
};

struct BF16 {
  using Stored = uint16_t;
  using Folded = float;
  static float Load(uint16_t value) { return FloatFromBF16(value); }
  static uint16_t Store(float value) { return BF16FromFloat(value); }
};

struct F16 {
  using Stored = uint16_t;
  using Folded = float;
  static float Load(uint16_t value) { return FloatFromF16(value); }
  static uint16_t Store(float value) { return F16FromFloat(value); }
};

struct Sum {
  template <typename T>
  static T Fold(T left, T right) {
    if constexpr (std::is_integral_v<T>) {
      // Without a sign, because that wraps where a signed sum is undefined.
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(
          static_cast<U>(static_cast<U>(left) + static_cast<U>(right)));
    } else {
      return left + right;
    }
  }
};

template <typename T>
bool IsNan(T value) {
  if constexpr (std::is_floating_point_v<T>) return value != value;
  return false;
}

// A NaN on the left stays, since it compares false.
struct Min {
  template <typename T>
  static T Fold(T left, T right) {
    return right < left || IsNan(right) ? right : left;
  }
};

struct Max {
  template <typename T>
  static T Fold(T left, T right) {
    return right > left || IsNan(right) ? right : left;
  }
};

// Loops have this constant length, which is what turns them into vector code;
// the elements past the end of a run are computed and not stored.
constexpr size_t kTileCount = 256;

// The bytes may belong to any type of the caller, and lie anywhere.
template <typename T>
using InBytes [[gnu::may_alias, gnu::aligned(1)]] = T;

template <typename Type>
struct Tile {
  typename Type::Folded folded[kTileCount];

  [[gnu::always_inline]] void Load(const InBytes<typename Type::Stored>* from) {
    for (size_t i = 0; i < kTileCount; ++i) folded[i] = Type::Load(from[i]);
  }
  template <typename Operator>
  [[gnu::always_inline]] void Fold(const InBytes<typename Type::Stored>* from) {
    for (size_t i = 0; i < kTileCount; ++i) {
      folded[i] = Operator::Fold(folded[i], Type::Load(from[i]));
    }
  }
  [[gnu::always_inline]] void Scale(typename Type::Folded scale) {
    for (size_t i = 0; i < kTileCount; ++i) folded[i] *= scale;
  }
  [[gnu::always_inline]] void Store(InBytes<typename Type::Stored>* to) const {
    for (size_t i = 0; i < kTileCount; ++i) to[i] = Type::Store(folded[i]);
  }
};

template <typename Type, typename Operator, bool kScaled>
[[gnu::always_inline]] inline void FoldTile(
    std::span<const std::byte* const> inputs, size_t offset,
    typename Type::Folded scale, std::byte* out) {
  using Stored = InBytes<typename Type::Stored>;
  Tile<Type> tile;
  tile.Load(reinterpret_cast<const Stored*>(inputs[0] + offset));
  for (size_t rank = 1; rank < inputs.size(); ++rank) {
    tile.template Fold<Operator>(
        reinterpret_cast<const Stored*>(inputs[rank] + offset));
  }
  if constexpr (kScaled) tile.Scale(scale);
  tile.Store(reinterpret_cast<Stored*>(out));
}

template <typename Type, typename Operator, bool kScaled>
[[gnu::always_inline]] inline void RunTiles(
    std::span<const std::byte* const> inputs, size_t count,
    typename Type::Folded scale, std::byte* out) {
  using Stored = typename Type::Stored;
  size_t start = 0;
  for (; start + kTileCount <= count; start += kTileCount) {
    const size_t offset = start * sizeof(Stored);
    FoldTile<Type, Operator, kScaled>(inputs, offset, scale, out + offset);
  }
  if (start == count) return;
  // What is left is read and written through whole tiles.
  const size_t offset = start * sizeof(Stored);
  const size_t bytes = (count - start) * sizeof(Stored);
  Stored whole[kTileCount] = {};
  std::byte* const bytes_of_whole = reinterpret_cast<std::byte*>(whole);
  Tile<Type> tile;
  std::memcpy(whole, inputs[0] + offset, bytes);
  tile.Load(whole);
  for (size_t rank = 1; rank < inputs.size(); ++rank) {
    std::memcpy(whole, inputs[rank] + offset, bytes);
    tile.template Fold<Operator>(whole);
  }
  if constexpr (kScaled) tile.Scale(scale);
  tile.Store(whole);
  std::memcpy(out + offset, bytes_of_whole, bytes);
}

// The same code for what the processor at hand has. Each element is folded
// alone, so that the width of its vectors changes no bit.
#if defined(__x86_64__)
template <typename Type, typename Operator, bool kScaled>
[[gnu::target("avx512f,avx512bw,avx512vl,prefer-vector-width=512")]] void
RunWidest(std::span<const std::byte* const> inputs, size_t count,
          typename Type::Folded scale, std::byte* out) {
  RunTiles<Type, Operator, kScaled>(inputs, count, scale, out);
}

template <typename Type, typename Operator, bool kScaled>
[[gnu::target("avx2")]] void RunWide(std::span<const std::byte* const> inputs,
                                     size_t count, typename Type::Folded scale,
                                     std::byte* out) {
  RunTiles<Type, Operator, kScaled>(inputs, count, scale, out);
}

#endif

template <typename Type, typename Operator, bool kScaled>
void Run(Vectors vectors, std::span<const std::byte* const> inputs,
         size_t count, typename Type::Folded scale, std::byte* out) {
#if defined(__x86_64__)
  if (vectors == Vectors::kWidest) {
    return RunWidest<Type, Operator, kScaled>(inputs, count, scale, out);
  }
  if (vectors == Vectors::kWide) {
    return RunWide<Type, Operator, kScaled>(inputs, count, scale, out);
  }
#endif
  RunTiles<Type, Operator, kScaled>(inputs, count, scale, out);
}

template <typename Type>
void RunType(Vectors vectors, const Reduction& reduction,
             std::span<const std::byte* const> inputs, size_t count,
             std::byte* out) {
  using Folded = typename Type::Folded;
  if (reduction.kind == MUONSHARD_MIN) {
    return Run<Type, Min, false>(vectors, inputs, count, Folded{1}, out);
  }
  if (reduction.kind == MUONSHARD_MAX) {
    return Run<Type, Max, false>(vectors, inputs, count, Folded{1}, out);
  }
  if constexpr (std::is_floating_point_v<Folded>) {
    if (reduction.kind == MUONSHARD_AVERAGE) {
      const Folded scale = Folded{1} / static_cast<Folded>(inputs.size());
      return Run<Type, Sum, true>(vectors, inputs, count, scale, out);
    }
    if (reduction.kind == MUONSHARD_SCALED_SUM) {
      const Folded scale = static_cast<Folded>(reduction.scale);
      return Run<Type, Sum, true>(vectors, inputs, count, scale, out);
    }
  }
  Run<Type, Sum, false>(vectors, inputs, count, Folded{1}, out);
}

}  // namespace

void ReduceWith(Vectors vectors, const Reduction& reduction,
                std::span<const std::byte* const> inputs, size_t count,
                std::byte* out) {
  switch (reduction.data_type) {
    case MUONSHARD_BF16:
      return RunType<BF16>(vectors, reduction, inputs, count, out);
    case MUONSHARD_F16:
      return RunType<F16>(vectors, reduction, inputs, count, out);
    case MUONSHARD_F32:
      return RunType<Plain<float>>(vectors, reduction, inputs, count, out);
    case MUONSHARD_F64:
      return RunType<Plain<double>>(vectors, reduction, inputs, count, out);
    case MUONSHARD_I32:
      return RunType<Plain<int32_t>>(vectors, reduction, inputs, count, out);
    case MUONSHARD_I64:
      return RunType<Plain<int64_t>>(vectors, reduction, inputs, count, out);
    case MUONSHARD_U8:
      return RunType<Plain<uint8_t>>(vectors, reduction, inputs, count, out);
    default:  // Calls with other types were refused.
      return;
  }
}

bool Has(Vectors vectors) {
  switch (vectors) {
    case Vectors::kPlain:
      return true;
#if defined(__x86_64__)
    case Vectors::kWide:
      return __builtin_cpu_supports("avx2") != 0;
    case Vectors::kWidest:
      return __builtin_cpu_supports("avx512f") != 0 &&
             __builtin_cpu_supports("avx512bw") != 0 &&
             __builtin_cpu_supports("avx512vl") != 0;
#endif
    default:
      return false;
  }
}

void Reduce(const Reduction& reduction,
            std::span<const std::byte* const> inputs, size_t count,
            std::byte* out) {
  static const Vectors widest = Has(Vectors::kWidest) ? Vectors::kWidest
                                : Has(Vectors::kWide) ? Vectors::kWide
                                                      : Vectors::kPlain;
  ReduceWith(widest, reduction, inputs, count, out);
}

}  // namespace muonshard::plugins
