#include "testing/conformance/canonical_reduction.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "testing/conformance/element_codec.h"
#include "testing/unit_roundoff.h"

namespace muonshard::testing {
namespace {

// How an element of type `Stored` becomes an `Accumulator` and back.
template <typename Accumulator, typename Stored>
struct Conversion {
  Accumulator (*decode)(Stored);
  Stored (*encode)(Accumulator);
};

template <typename T>
constexpr Conversion<T, T> kSame = {.decode = [](T value) { return value; },
                                    .encode = [](T value) { return value; }};

template <typename Stored>
Stored ElementAt(const Elements& elements, size_t i) {
  Stored stored;
  std::memcpy(&stored, elements.bytes().data() + i * sizeof(Stored),
              sizeof(Stored));
  return stored;
}

template <typename Accumulator>
Accumulator Combine(Accumulator a, Accumulator b, ReductionKind kind) {
  if (kind == ReductionKind::kMin) return std::min(a, b);
  if (kind == ReductionKind::kMax) return std::max(a, b);
  return static_cast<Accumulator>(a + b);
}

// 1 where the reduction has no scale.
double ScaleOf(const Reduction& reduction, size_t ranks) {
  if (reduction.kind == ReductionKind::kAverage) {
    return 1 / static_cast<double>(ranks);
  }
  return reduction.kind == ReductionKind::kScaledSum ? reduction.scale : 1;
}

template <typename Accumulator, typename Stored>
Elements Fold(std::span<const Elements> contributions,
              const Reduction& reduction,
              Conversion<Accumulator, Stored> conversion) {
  const auto scale =
      static_cast<Accumulator>(ScaleOf(reduction, contributions.size()));
  Elements result(contributions[0].type(), contributions[0].count());
  const auto count = static_cast<size_t>(result.count());
  for (size_t i = 0; i < count; ++i) {
    Accumulator sum = conversion.decode(ElementAt<Stored>(contributions[0], i));
    for (const Elements& contribution : contributions.subspan(1)) {
      sum = Combine(sum, conversion.decode(ElementAt<Stored>(contribution, i)),
                    reduction.kind);
    }
    sum = static_cast<Accumulator>(sum * scale);
    const Stored stored = conversion.encode(sum);
    std::memcpy(result.bytes().data() + i * sizeof(Stored), &stored,
                sizeof(Stored));
  }
  return result;
}

// The fold over the hosts of the folds over their lanes. In 16 bits each level
// divides by its own ranks, and the last takes what is left of the scale.
Elements FoldOfFolds(std::span<const Elements> contributions,
                     const Reduction& reduction, size_t lanes) {
  const DataType type = contributions[0].type();
  const bool half = type == DataType::kF16 || type == DataType::kBF16;
  Reduction of_lanes = reduction;
  Reduction of_hosts = reduction;
  if (reduction.kind == ReductionKind::kAverage ||
      reduction.kind == ReductionKind::kScaledSum) {
    const double scale = ScaleOf(reduction, contributions.size());
    of_lanes = half ? Reduction::Average() : Reduction::Sum();
    of_hosts =
        Reduction::ScaledSum(half ? scale * static_cast<double>(lanes) : scale);
  }
  std::vector<Elements> hosts;
  for (size_t begin = 0; begin < contributions.size(); begin += lanes) {
    hosts.push_back(
        CanonicalReduction(contributions.subspan(begin, lanes), of_lanes));
  }
  return CanonicalReduction(hosts, of_hosts);
}

}  // namespace

Elements CanonicalReduction(std::span<const Elements> contributions,
                            const Reduction& reduction, int32_t lanes) {
  if (lanes > 1) {
    return FoldOfFolds(contributions, reduction, static_cast<size_t>(lanes));
  }
  switch (contributions[0].type()) {
    case DataType::kBF16:
      return Fold<float, uint16_t>(
          contributions, reduction,
          {.decode = &BF16ToFloat, .encode = &FloatToBF16});
    case DataType::kF16:
      return Fold<float, uint16_t>(
          contributions, reduction,
          {.decode = &F16ToFloat, .encode = &FloatToF16});
    case DataType::kF32:
      return Fold(contributions, reduction, kSame<float>);
    case DataType::kF64:
      return Fold(contributions, reduction, kSame<double>);
    case DataType::kI32:
      return Fold(contributions, reduction, kSame<int32_t>);
    case DataType::kI64:
      return Fold(contributions, reduction, kSame<int64_t>);
    case DataType::kU8:
      return Fold(contributions, reduction, kSame<uint8_t>);
  }
  return {};
}

::testing::AssertionResult IsWithinOneRoundingPerHop(
    const Elements& got, std::span<const Elements> contributions,
    const Reduction& reduction) {
  const DataType type = got.type();
  if (!IsFloating(type)) {
    return HasBitsOf(got, CanonicalReduction(contributions, reduction));
  }
  const double scale = ScaleOf(reduction, contributions.size());
  const double roundings = 2 * static_cast<double>(contributions.size());
  for (int64_t i = 0; i < got.count(); ++i) {
    double exact = DecodeReal(type, contributions[0].in(i, 1).data);
    double magnitude = std::fabs(exact);
    for (const Elements& contribution : contributions.subspan(1)) {
      const double value = DecodeReal(type, contribution.in(i, 1).data);
      exact = Combine(exact, value, reduction.kind);
      magnitude += std::fabs(value);
    }
    const double bound =
        roundings * UnitRoundoff(type) * magnitude * std::fabs(scale);
    const double value = DecodeReal(type, got.in(i, 1).data);
    // Written so that a NaN fails.
    if (!(std::fabs(value - exact * scale) <= bound)) {
      return ::testing::AssertionFailure()
             << "element " << i << " is " << Printed(type, got.in(i, 1).data)
             << ", want " << exact * scale << " +- " << bound;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace muonshard::testing
