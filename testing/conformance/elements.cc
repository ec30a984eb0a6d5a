#include "testing/conformance/elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "testing/conformance/element_codec.h"
#include "testing/seeded_random.h"

namespace muonshard::testing {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xC3};
constexpr std::byte kUnwritten{0xA5};

// A value of (1 + u) * 2^e with u in [0, 1) and e in [-6, 6]: 16 of them stay
// below the largest f16 and span more than its precision.
double RandomReal(SeededRandom& random) {
  const uint64_t bits = random.Next();
  const double fraction = std::ldexp(static_cast<double>(bits >> 12), -52);
  const int exponent = static_cast<int>(bits % 13) - 6;
  const double sign = (bits & 0x800u) != 0 ? -1 : 1;
  return sign * std::ldexp(1 + fraction, exponent);
}

// Such that the sum of 16 is in the range of the type, and never 0.
int64_t RandomInteger(DataType type, SeededRandom& random) {
  const uint64_t bits = random.Next();
  if (type == DataType::kU8) return static_cast<int64_t>(bits % 15) + 1;
  const int width = type == DataType::kI32 ? 26 : 58;
  const auto magnitude = static_cast<int64_t>(bits >> (64 - width)) | 1;
  return (bits & 1u) != 0 ? -magnitude : magnitude;
}

}  // namespace

Elements::Elements(DataType type, int64_t count)
    : type_(type),
      count_(count),
      storage_(2 * kGuardBytes + static_cast<size_t>(count) * ByteWidth(type),
               kUnwritten) {
  std::fill_n(storage_.begin(), kGuardBytes, kGuard);
  std::fill_n(storage_.rbegin(), kGuardBytes, kGuard);
}

Elements Elements::SmallIntegers(DataType type, int64_t count, uint64_t seed) {
  Elements elements(type, count);
  SeededRandom random(seed);
  std::byte* element = elements.bytes().data();
  for (int64_t i = 0; i < count; ++i, element += ByteWidth(type)) {
    EncodeInteger(static_cast<int64_t>(random.Next() >> 60), type, element);
  }
  return elements;
}

Elements Elements::Random(DataType type, int64_t count, uint64_t seed) {
  Elements elements(type, count);
  SeededRandom random(seed);
  std::byte* element = elements.bytes().data();
  for (int64_t i = 0; i < count; ++i, element += ByteWidth(type)) {
    if (IsFloating(type)) {
      EncodeReal(RandomReal(random), type, element);
    } else {
      EncodeInteger(RandomInteger(type, random), type, element);
    }
  }
  return elements;
}

Elements Elements::RandomBits(DataType type, int64_t count, uint64_t seed) {
  Elements elements(type, count);
  SeededRandom random(seed);
  std::span<std::byte> rest = elements.bytes();
  while (!rest.empty()) {
    const uint64_t bits = random.Next();
    const size_t bytes = std::min(rest.size(), sizeof(bits));
    std::memcpy(rest.data(), &bits, bytes);
    rest = rest.subspan(bytes);
  }
  return elements;
}

ConstBuffer Elements::in(int64_t begin, int64_t count) const {
  const size_t offset = static_cast<size_t>(begin) * ByteWidth(type_);
  return {.data = count == 0 ? nullptr : bytes().data() + offset,
          .count = count,
          .type = type_};
}

MutableBuffer Elements::out(int64_t begin, int64_t count) {
  const size_t offset = static_cast<size_t>(begin) * ByteWidth(type_);
  return {.data = count == 0 ? nullptr : bytes().data() + offset,
          .count = count,
          .type = type_};
}

Elements Elements::Slice(int64_t begin, int64_t count) const {
  Elements slice(type_, count);
  const size_t width = ByteWidth(type_);
  std::ranges::copy(bytes().subspan(static_cast<size_t>(begin) * width,
                                    static_cast<size_t>(count) * width),
                    slice.bytes().begin());
  return slice;
}

void Elements::Overwrite(int64_t begin, const Elements& part) {
  const size_t offset = static_cast<size_t>(begin) * ByteWidth(type_);
  std::ranges::copy(part.bytes(), bytes().subspan(offset).begin());
}

std::span<std::byte> Elements::bytes() {
  return std::span(storage_).subspan(kGuardBytes,
                                     storage_.size() - 2 * kGuardBytes);
}

std::span<const std::byte> Elements::bytes() const {
  return std::span(storage_).subspan(kGuardBytes,
                                     storage_.size() - 2 * kGuardBytes);
}

bool Elements::GuardsAreIntact() const {
  const auto is_guard = [](std::byte byte) { return byte == kGuard; };
  return std::ranges::all_of(std::span(storage_).first(kGuardBytes),
                             is_guard) &&
         std::ranges::all_of(std::span(storage_).last(kGuardBytes), is_guard);
}

::testing::AssertionResult HasBitsOf(const Elements& got,
                                     const Elements& want) {
  if (got.type() != want.type() || got.count() != want.count()) {
    return ::testing::AssertionFailure()
           << "got " << got.count() << " elements of "
           << DataTypeName(got.type()) << ", want " << want.count() << " of "
           << DataTypeName(want.type());
  }
  if (!got.GuardsAreIntact()) {
    return ::testing::AssertionFailure() << "bytes beside the buffer changed";
  }
  if (std::memcmp(got.bytes().data(), want.bytes().data(),
                  got.bytes().size()) == 0) {
    return ::testing::AssertionSuccess();
  }
  const auto at = std::ranges::mismatch(got.bytes(), want.bytes()).in1;
  const auto byte = static_cast<size_t>(at - got.bytes().begin());
  const auto i = static_cast<int64_t>(byte / ByteWidth(got.type()));
  return ::testing::AssertionFailure()
         << "element " << i << " of " << got.count() << " "
         << DataTypeName(got.type()) << " is "
         << Printed(got.type(), got.in(i, 1).data) << ", want "
         << Printed(want.type(), want.in(i, 1).data);
}

uint64_t Seed(uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t ab = SeededRandom(a).Next() ^ b;
  return SeededRandom(SeededRandom(ab).Next() ^ c).Next();
}

}  // namespace muonshard::testing
