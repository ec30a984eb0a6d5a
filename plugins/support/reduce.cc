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

template <typename Type>
void ReadTile(const std::byte* from, size_t count,
              typename Type::Stored (&tile)[kTileCount]) {
  // Copied, because the bytes may belong to any type of the caller.
  std::memcpy(tile, from, count * sizeof(tile[0]));
}

template <typename Type, typename Operator, bool kScaled>
void Run(std::span<const std::byte* const> inputs, size_t count,
         typename Type::Folded scale, std::byte* out) {
  using Stored = typename Type::Stored;
  Stored tile[kTileCount] = {};
  typename Type::Folded folded[kTileCount];
  for (size_t start = 0; start < count; start += kTileCount) {
    const size_t length = std::min(kTileCount, count - start);
    const size_t offset = start * sizeof(Stored);
    ReadTile<Type>(inputs[0] + offset, length, tile);
    for (size_t i = 0; i < kTileCount; ++i) folded[i] = Type::Load(tile[i]);
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      ReadTile<Type>(inputs[rank] + offset, length, tile);
      for (size_t i = 0; i < kTileCount; ++i) {
        folded[i] = Operator::Fold(folded[i], Type::Load(tile[i]));
      }
    }
    if constexpr (kScaled) {
      for (size_t i = 0; i < kTileCount; ++i) folded[i] *= scale;
    }
    for (size_t i = 0; i < kTileCount; ++i) tile[i] = Type::Store(folded[i]);
    std::memcpy(out + offset, tile, length * sizeof(Stored));
  }
}

template <typename Type>
void RunType(const Reduction& reduction,
             std::span<const std::byte* const> inputs, size_t count,
             std::byte* out) {
  using Folded = typename Type::Folded;
  if (reduction.kind == MUONSHARD_MIN) {
    return Run<Type, Min, false>(inputs, count, Folded{1}, out);
  }
  if (reduction.kind == MUONSHARD_MAX) {
    return Run<Type, Max, false>(inputs, count, Folded{1}, out);
  }
  if constexpr (std::is_floating_point_v<Folded>) {
    if (reduction.kind == MUONSHARD_AVERAGE) {
      const Folded scale = Folded{1} / static_cast<Folded>(inputs.size());
      return Run<Type, Sum, true>(inputs, count, scale, out);
    }
    if (reduction.kind == MUONSHARD_SCALED_SUM) {
      const Folded scale = static_cast<Folded>(reduction.scale);
      return Run<Type, Sum, true>(inputs, count, scale, out);
    }
  }
  Run<Type, Sum, false>(inputs, count, Folded{1}, out);
}

}  // namespace

void Reduce(const Reduction& reduction,
            std::span<const std::byte* const> inputs, size_t count,
            std::byte* out) {
  switch (reduction.data_type) {
    case MUONSHARD_BF16:
      return RunType<BF16>(reduction, inputs, count, out);
    case MUONSHARD_F16:
      return RunType<F16>(reduction, inputs, count, out);
    case MUONSHARD_F32:
      return RunType<Plain<float>>(reduction, inputs, count, out);
    case MUONSHARD_F64:
      return RunType<Plain<double>>(reduction, inputs, count, out);
    case MUONSHARD_I32:
      return RunType<Plain<int32_t>>(reduction, inputs, count, out);
    case MUONSHARD_I64:
      return RunType<Plain<int64_t>>(reduction, inputs, count, out);
    case MUONSHARD_U8:
      return RunType<Plain<uint8_t>>(reduction, inputs, count, out);
    default:  // Calls with other types were refused.
      return;
  }
}

}  // namespace muonshard::plugins
