#include "optimizer/compute/convert.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

namespace muonshard {
namespace {

// All selections below are between values that were both computed, so that the
// loops over them are turned into vector code.

float FloatFromBF16(uint16_t value) {
  return std::bit_cast<float>(uint32_t{value} << 16);
}

uint16_t BF16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = ((bits >> 16) & 0x8000u) | 0x7fc0u;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(is_nan ? quiet_nan : rounded);
}

float FloatFromF16(uint16_t value) {
  constexpr uint32_t kExponentMask = 0x7c00u << 13;
  constexpr uint32_t kBiasDifference = (127u - 15u) << 23;
  constexpr uint32_t kSmallestNormal = kBiasDifference + (1u << 23);
  const uint32_t magnitude = (value & 0x7fffu) << 13;
  const uint32_t exponent = magnitude & kExponentMask;
  const uint32_t normal = magnitude + kBiasDifference;
  // Infinite and NaN go on to the highest exponent of f32.
  const uint32_t special = normal + kBiasDifference;
  // A subnormal's mantissa beside the implicit bit of the smallest normal,
  // which is then taken away exactly. No f32 subnormal is ever seen, so a mode
  // that flushes them has no effect.
  const float subnormal = std::bit_cast<float>(magnitude + kSmallestNormal) -
                          std::bit_cast<float>(kSmallestNormal);
  uint32_t bits = normal;
  bits = exponent == kExponentMask ? special : bits;
  bits = exponent == 0 ? std::bit_cast<uint32_t>(subnormal) : bits;
  return std::bit_cast<float>(bits | ((value & 0x8000u) << 16));
}

uint16_t F16FromFloat(float value) {
  constexpr uint32_t kBiasDifference = (127u - 15u) << 23;
  constexpr uint32_t kSmallestNormal = kBiasDifference + (1u << 23);
  constexpr uint32_t kInfinite = 0x7f800000u;
  constexpr uint32_t kTooLarge = (127u + 16u) << 23;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal =
      (magnitude - kBiasDifference + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // The ulp of f32 at 0.5 is the ulp of f16's subnormals, so this addition is
  // the rounding.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
      std::bit_cast<uint32_t>(0.5f);
  uint32_t result = normal;
  result = magnitude < kSmallestNormal ? subnormal : result;
  result = magnitude >= kTooLarge ? 0x7c00u : result;
  result = magnitude > kInfinite ? 0x7e00u : result;
  return static_cast<uint16_t>(result | ((bits >> 16) & 0x8000u));
}

// Elements go through buffers of a constant length: such loops become vector
// code, and the bytes may belong to any type of the caller.
constexpr size_t kTileCount = 256;

template <typename Stored, typename Load>
void Read(const void* in, std::span<float> out, Load load) {
  const auto* bytes = static_cast<const std::byte*>(in);
  Stored stored[kTileCount] = {};
  float values[kTileCount];
  for (size_t start = 0; start < out.size(); start += kTileCount) {
    const size_t length = std::min(kTileCount, out.size() - start);
    std::memcpy(stored, bytes + start * sizeof(Stored),
                length * sizeof(Stored));
    for (size_t i = 0; i < kTileCount; ++i) values[i] = load(stored[i]);
    std::memcpy(out.data() + start, values, length * sizeof(float));
  }
}

template <typename Stored, typename Store>
void Write(std::span<const float> in, void* out, Store store) {
  auto* bytes = static_cast<std::byte*>(out);
  float values[kTileCount] = {};
  Stored stored[kTileCount];
  for (size_t start = 0; start < in.size(); start += kTileCount) {
    const size_t length = std::min(kTileCount, in.size() - start);
    std::memcpy(values, in.data() + start, length * sizeof(float));
    for (size_t i = 0; i < kTileCount; ++i) stored[i] = store(values[i]);
    std::memcpy(bytes + start * sizeof(Stored), stored,
                length * sizeof(Stored));
  }
}

template <typename Stored>
int64_t CountExponents(const void* in, int64_t count, Stored mask) {
  const auto* bytes = static_cast<const std::byte*>(in);
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, bytes + static_cast<size_t>(i) * sizeof(Stored),
                sizeof(Stored));
    found += (stored & mask) == mask ? 1 : 0;
  }
  return found;
}

}  // namespace

bool IsFloating(DataType type) {
  return type == DataType::kBF16 || type == DataType::kF16 ||
         type == DataType::kF32 || type == DataType::kF64;
}

void ToFloat(DataType type, const void* in, std::span<float> out) {
  if (out.empty()) return;
  switch (type) {
    case DataType::kBF16:
      return Read<uint16_t>(in, out, FloatFromBF16);
    case DataType::kF16:
      return Read<uint16_t>(in, out, FloatFromF16);
    case DataType::kF64:
      return Read<double>(in, out,
                          [](double v) { return static_cast<float>(v); });
    default:
      std::memmove(out.data(), in, out.size_bytes());
  }
}

void FromFloat(DataType type, std::span<const float> in, void* out) {
  if (in.empty()) return;
  switch (type) {
    case DataType::kBF16:
      return Write<uint16_t>(in, out, BF16FromFloat);
    case DataType::kF16:
      return Write<uint16_t>(in, out, F16FromFloat);
    case DataType::kF64:
      return Write<double>(in, out, [](float v) { return double{v}; });
    default:
      std::memmove(out, in.data(), in.size_bytes());
  }
}

void AddToFloat(DataType type, const void* in, std::span<float> sum) {
  const auto* bytes = static_cast<const std::byte*>(in);
  float addends[kTileCount] = {};
  float sums[kTileCount] = {};
  for (size_t start = 0; start < sum.size(); start += kTileCount) {
    const std::span<float> range =
        sum.subspan(start, std::min(kTileCount, sum.size() - start));
    ToFloat(type, bytes + start * ByteWidth(type),
            std::span(addends, range.size()));
    std::memcpy(sums, range.data(), range.size_bytes());
    for (size_t i = 0; i < kTileCount; ++i) sums[i] += addends[i];
    std::memcpy(range.data(), sums, range.size_bytes());
  }
}

int64_t CountNonFinite(DataType type, const void* in, int64_t count) {
  switch (type) {
    case DataType::kBF16:
      return CountExponents<uint16_t>(in, count, 0x7f80u);
    case DataType::kF16:
      return CountExponents<uint16_t>(in, count, 0x7c00u);
    case DataType::kF64:
      return CountExponents<uint64_t>(in, count, uint64_t{0x7ff} << 52);
    default:
      return CountExponents<uint32_t>(in, count, 0x7f800000u);
  }
}

}  // namespace muonshard
