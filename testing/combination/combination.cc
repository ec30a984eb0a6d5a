#include "testing/combination/combination.h"

#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muonshard::testing {
namespace {

constexpr std::array<Hierarchy, 3> kHierarchies = {
    Hierarchy::kOff, Hierarchy::kOn, Hierarchy::kAuto};
constexpr std::array<absl::string_view, 3> kHierarchyNames = {"off", "on",
                                                              "auto"};
constexpr std::array<int32_t, 2> kMicroBatches = {1, 3};
constexpr std::array<DataType, 3> kPrecisions = {
    DataType::kF32, DataType::kBF16, DataType::kF16};
constexpr std::array<GatherMode, 2> kGathers = {GatherMode::kEager,
                                                GatherMode::kLazy};
constexpr std::array<std::optional<AbsentGradient>, 4> kAbsents = {
    std::nullopt, AbsentGradient::kZeros, AbsentGradient::kSkip,
    AbsentGradient::kError};

std::vector<Combination> FromRows(const std::vector<Row>& rows) {
  std::vector<Combination> combinations;
  for (const Row& row : rows) combinations.push_back(Combination::Of(row));
  return combinations;
}

absl::string_view AbsentName(std::optional<AbsentGradient> absent) {
  if (!absent.has_value()) return "none";
  switch (*absent) {
    case AbsentGradient::kZeros:
      return "zeros";
    case AbsentGradient::kSkip:
      return "skip";
    case AbsentGradient::kError:
      return "error";
  }
  return "unknown";
}

}  // namespace

std::vector<int32_t> Combination::ValueCounts() {
  return {2, 3, 2, 2, 3, 2, 2, 4};
}

Combination Combination::Of(const Row& row) {
  const auto value = [&row](size_t factor) {
    return static_cast<size_t>(row[factor]);
  };
  return {.overlap = row[0] == 1,
          .hierarchy = kHierarchies[value(1)],
          .scaler = row[2] == 1,
          .micro_batches = kMicroBatches[value(3)],
          .precision = kPrecisions[value(4)],
          .gather = kGathers[value(5)],
          .release_gradients = row[6] == 1,
          .absent = kAbsents[value(7)]};
}

std::vector<Combination> AllCombinations() {
  return FromRows(FullProduct(Combination::ValueCounts()));
}

std::vector<Combination> TriplesOfCombinations() {
  return FromRows(CoverTriples(Combination::ValueCounts()));
}

std::string ToString(const Combination& combination) {
  const auto on = [](bool value) { return value ? "on" : "off"; };
  return absl::StrCat(
      "overlap=", on(combination.overlap), " hierarchy=",
      kHierarchyNames[static_cast<size_t>(combination.hierarchy)],
      " scaler=", on(combination.scaler),
      " micro-batches=", combination.micro_batches,
      " precision=", DataTypeName(combination.precision),
      " gather=", combination.gather == GatherMode::kEager ? "eager" : "lazy",
      " release=", on(combination.release_gradients),
      " absent=", AbsentName(combination.absent));
}

}  // namespace muonshard::testing
