#include "optimizer/compute/exact_sum.h"

#include <bit>
#include <limits>

namespace muonshard {
namespace {

constexpr int kLimbBits = 32;
constexpr uint64_t kLimbMask = 0xffffffffu;
// Mantissa bits of a double, the implicit one included.
constexpr int kMantissaBits = 53;
constexpr uint64_t kImplicitBit = uint64_t{1} << (kMantissaBits - 1);
constexpr int kExponentMax = 2046;  // Of a finite double, biased.

// Bits [low, low + kMantissaBits) of the integer that `limbs` hold.
uint64_t MantissaAt(std::span<const int64_t, kExactSumLimbs> limbs, int low) {
  const size_t limb = static_cast<size_t>(low / kLimbBits);
  const int shift = low % kLimbBits;
  uint64_t bits = static_cast<uint64_t>(limbs[limb]) >> shift;
  if (limb + 1 < kExactSumLimbs) {
    bits |= static_cast<uint64_t>(limbs[limb + 1]) << (kLimbBits - shift);
  }
  // Without a shift the third limb starts above bit 63.
  if (limb + 2 < kExactSumLimbs && shift > 0) {
    bits |= static_cast<uint64_t>(limbs[limb + 2]) << (2 * kLimbBits - shift);
  }
  return bits & ((kImplicitBit << 1) - 1);
}

bool BitAt(std::span<const int64_t, kExactSumLimbs> limbs, int bit) {
  return (limbs[static_cast<size_t>(bit / kLimbBits)] >> (bit % kLimbBits)) & 1;
}

bool AnyBitBelow(std::span<const int64_t, kExactSumLimbs> limbs, int bit) {
  const size_t limb = static_cast<size_t>(bit / kLimbBits);
  for (size_t i = 0; i < limb; ++i) {
    if (limbs[i] != 0) return true;
  }
  return (limbs[limb] & ((int64_t{1} << (bit % kLimbBits)) - 1)) != 0;
}

}  // namespace

void ExactSum::Add(double term) {
  const uint64_t bits = std::bit_cast<uint64_t>(term);
  const int exponent = static_cast<int>((bits >> (kMantissaBits - 1)) & 0x7ff);
  uint64_t mantissa = bits & (kImplicitBit - 1);
  if (exponent > 0) mantissa |= kImplicitBit;
  // The place of the mantissa's lowest bit; subnormals share that of the
  // smallest normals.
  const int low = exponent > 0 ? exponent - 1 : 0;
  const size_t limb = static_cast<size_t>(low / kLimbBits);
  const int shift = low % kLimbBits;
  const uint64_t lower = (mantissa & kLimbMask) << shift;
  const uint64_t upper =
      ((mantissa >> kLimbBits) << shift) + (lower >> kLimbBits);
  limbs_[limb] += static_cast<int64_t>(lower & kLimbMask);
  limbs_[limb + 1] += static_cast<int64_t>(upper & kLimbMask);
  limbs_[limb + 2] += static_cast<int64_t>(upper >> kLimbBits);
  if (--adds_until_carry_ == 0) Carry();
}

void ExactSum::AddLimbs(std::span<const int64_t, kExactSumLimbs> limbs) {
  // Own limbs are below 2^63, those given too: their sum and a carry fit 64
  // bits without a sign.
  uint64_t carry = 0;
  for (size_t i = 0; i < kExactSumLimbs; ++i) {
    const uint64_t total = static_cast<uint64_t>(limbs_[i]) +
                           static_cast<uint64_t>(limbs[i]) + carry;
    limbs_[i] = static_cast<int64_t>(total & kLimbMask);
    carry = total >> kLimbBits;
  }
  adds_until_carry_ = kAddsUntilCarry;
}

void ExactSum::Export(std::span<int64_t, kExactSumLimbs> limbs) const {
  ExactSum carried = *this;
  carried.Carry();
  for (size_t i = 0; i < kExactSumLimbs; ++i) limbs[i] = carried.limbs_[i];
}

double ExactSum::Value() const {
  ExactSum carried = *this;
  carried.Carry();
  const std::span<const int64_t, kExactSumLimbs> limbs(carried.limbs_);
  size_t top_limb = kExactSumLimbs - 1;
  while (top_limb > 0 && limbs[top_limb] == 0) --top_limb;
  const int top_limb_bits =
      static_cast<int>(std::bit_width(static_cast<uint64_t>(limbs[top_limb])));
  const int top_bit =
      static_cast<int>(top_limb) * kLimbBits + top_limb_bits - 1;
  // Up to here the integer, in units of the smallest double, is the bits of
  // the double: subnormals and the first normals are exact.
  if (top_bit < kMantissaBits) {
    return std::bit_cast<double>(MantissaAt(limbs, 0));
  }
  const int low = top_bit - (kMantissaBits - 1);
  if (low + 1 > kExponentMax) return std::numeric_limits<double>::infinity();
  const uint64_t mantissa = MantissaAt(limbs, low);
  // The implicit bit adds one to the exponent. Rounding up may carry into the
  // exponent too, and from the highest one into infinity, as it should.
  uint64_t bits =
      (static_cast<uint64_t>(low) << (kMantissaBits - 1)) + mantissa;
  const bool half = BitAt(limbs, low - 1);
  if (half && ((mantissa & 1) != 0 || AnyBitBelow(limbs, low - 1))) ++bits;
  return std::bit_cast<double>(bits);
}

void ExactSum::Carry() {
  const std::array<int64_t, kExactSumLimbs> zero = {};
  AddLimbs(zero);
}

double ChunkSumOfSquares(std::span<const float> values) {
  double sums[8] = {};
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = double{values[i]};
    sums[i % 8] += value * value;
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
         ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace muonshard
