// The 16-bit floating types, by integer conversion.
//
// Result       To float: exact. From float: to the nearest, ties to even, with
//              overflow to infinity; every NaN becomes the quiet NaN of its
//              sign.
// Cost         No branches, so that loops over these become vector code.

#ifndef PLUGINS_SUPPORT_HALF_H_
#define PLUGINS_SUPPORT_HALF_H_

#include <bit>
#include <cstdint>

namespace muonshard::plugins {

inline float FloatFromBF16(uint16_t value) {
  return std::bit_cast<float>(uint32_t{value} << 16);
}

inline uint16_t BF16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = ((bits >> 16) & 0x8000u) | 0x7fc0u;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(is_nan ? quiet_nan : nearest);
}

inline float FloatFromF16(uint16_t value) {
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  constexpr uint32_t kSmallestNormal = kRebias + (1u << 23);
  const uint32_t magnitude = (value & 0x7fffu) << 13;
  const uint32_t exponent = magnitude & (0x7c00u << 13);
  // The mantissa of a subnormal beside an implicit bit, which is then taken
  // away exactly.
  const float subnormal = std::bit_cast<float>(magnitude + kSmallestNormal) -
                          std::bit_cast<float>(kSmallestNormal);
  uint32_t bits = magnitude + kRebias;
  bits = exponent == (0x7c00u << 13) ? magnitude + 2 * kRebias : bits;
  bits = exponent == 0 ? std::bit_cast<uint32_t>(subnormal) : bits;
  return std::bit_cast<float>(bits | ((value & 0x8000u) << 16));
}

inline uint16_t F16FromFloat(float value) {
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  constexpr uint32_t kSmallestNormal = kRebias + (1u << 23);
  constexpr uint32_t kInfinite = 0x7f800000u;
  constexpr uint32_t kTooLarge = (127u + 16u) << 23;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal =
      (magnitude - kRebias + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // A float near 0.5 has the spacing of f16's subnormals, so this addition is
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

}  // namespace muonshard::plugins

#endif  // PLUGINS_SUPPORT_HALF_H_
