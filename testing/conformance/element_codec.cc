#include "testing/conformance/element_codec.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace muonshard::testing {
namespace {

template <typename T>
T Load(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  return value;
}

template <typename T>
void Save(T value, void* element) {
  std::memcpy(element, &value, sizeof(T));
}

}  // namespace

float BF16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

uint16_t FloatToBF16(float value) {
  if (std::isnan(value)) return 0x7FC0;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t kept = bits >> 16;
  const uint32_t dropped = bits & 0xFFFFu;
  const bool up = dropped > 0x8000u || (dropped == 0x8000u && (kept & 1u) != 0);
  return static_cast<uint16_t>(kept + (up ? 1 : 0));
}

float F16ToFloat(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int fraction = bits & 0x3FF;
  float magnitude;
  if (exponent == 0x1F) {
    magnitude = fraction == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

uint16_t FloatToF16(float value) {
  if (std::isnan(value)) return 0x7E00;
  const uint32_t sign = std::signbit(value) ? 0x8000u : 0;
  const float magnitude = std::fabs(value);
  // Half way between the largest f16, 65504, and what would be the next one.
  if (magnitude >= 65520) return static_cast<uint16_t>(sign | 0x7C00u);
  // The unit in the last place is 2^-24 below 2^-13; a rounding that carries
  // gives the bits of the next exponent by itself.
  const int exponent = magnitude < 0x1p-14F ? -14 : std::ilogb(magnitude);
  const auto units = static_cast<uint32_t>(
      std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  const auto biased = static_cast<uint32_t>(exponent + 14) << 10;
  return static_cast<uint16_t>(sign | (biased + units));
}

double DecodeReal(DataType type, const void* element) {
  switch (type) {
    case DataType::kBF16:
      return BF16ToFloat(Load<uint16_t>(element));
    case DataType::kF16:
      return F16ToFloat(Load<uint16_t>(element));
    case DataType::kF32:
      return Load<float>(element);
    case DataType::kF64:
      return Load<double>(element);
    case DataType::kI32:
      return Load<int32_t>(element);
    case DataType::kI64:
      return static_cast<double>(Load<int64_t>(element));
    case DataType::kU8:
      return Load<uint8_t>(element);
  }
  return 0;
}

void EncodeReal(double value, DataType type, void* element) {
  switch (type) {
    case DataType::kBF16:
      return Save(FloatToBF16(static_cast<float>(value)), element);
    case DataType::kF16:
      return Save(FloatToF16(static_cast<float>(value)), element);
    case DataType::kF32:
      return Save(static_cast<float>(value), element);
    case DataType::kF64:
      return Save(value, element);
    case DataType::kI32:
    case DataType::kI64:
    case DataType::kU8:
      return;
  }
}

void EncodeInteger(int64_t value, DataType type, void* element) {
  switch (type) {
    case DataType::kBF16:
    case DataType::kF16:
    case DataType::kF32:
    case DataType::kF64:
      return EncodeReal(static_cast<double>(value), type, element);
    case DataType::kI32:
      return Save(static_cast<int32_t>(value), element);
    case DataType::kI64:
      return Save(value, element);
    case DataType::kU8:
      return Save(static_cast<uint8_t>(value), element);
  }
}

std::string Printed(DataType type, const void* element) {
  std::string bits;
  for (size_t i = ByteWidth(type); i > 0; --i) {
    absl::StrAppend(&bits,
                    absl::Hex(static_cast<const uint8_t*>(element)[i - 1],
                              absl::kZeroPad2));
  }
  return absl::StrCat(DecodeReal(type, element), " (0x", bits, ")");
}

}  // namespace muonshard::testing
