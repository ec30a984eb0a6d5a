#include "optimizer/equality_check.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/stable_hash.h"

namespace muonshard {
namespace {

// What a rank brings of a parameter that it does not have.
constexpr int64_t kNeutral = std::numeric_limits<int64_t>::max();

}  // namespace

EqualityCheck::EqualityCheck(const Plan& plan, Rank rank) : plan_(plan) {
  const std::vector<int32_t> coordinates = plan.mesh.Coordinates(rank);
  for (size_t p = 0; p < plan.specs.size(); ++p) {
    ParameterPlaces places(plan.specs[p], plan.mesh);
    if (places.rank_count() == 1) continue;
    const std::optional<size_t> own = places.PlaceOf(coordinates);
    const size_t first = least_count_;
    least_count_ += 2 * places.count();
    slots_.push_back({.parameter = static_cast<int32_t>(p),
                      .first = first,
                      .places = std::move(places),
                      .own = own});
  }
}

void EqualityCheck::Encode(
    const std::function<const std::byte*(int32_t parameter)>& memory_of,
    std::span<int64_t> least) const {
  std::fill(least.begin(), least.end(), kNeutral);
  for (const Slots& slots : slots_) {
    if (!slots.own.has_value()) continue;
    const ParameterSpec& spec =
        plan_.specs[static_cast<size_t>(slots.parameter)];
    const auto hash = static_cast<int64_t>(HashBytes(
        memory_of(slots.parameter),
        static_cast<size_t>(ElementCount(spec)) * ByteWidth(spec.dtype)));
    const size_t at = slots.first + 2 * *slots.own;
    least[at] = hash;
    // Not -hash, which the least number does not have.
    least[at + 1] = ~hash;
  }
}

absl::Status EqualityCheck::Check(std::span<const int64_t> least) const {
  for (const Slots& slots : slots_) {
    for (size_t place = 0; place < slots.places.count(); ++place) {
      const size_t at = slots.first + 2 * place;
      if (least[at] == ~least[at + 1]) continue;
      const std::string where = slots.places.Name(place);
      return absl::FailedPreconditionError(
          absl::StrCat("parameter \"",
                       plan_.specs[static_cast<size_t>(slots.parameter)].name,
                       "\" is not the same on its ", slots.places.rank_count(),
                       " ranks", where.empty() ? "" : " at ", where));
    }
  }
  return absl::OkStatus();
}

}  // namespace muonshard
