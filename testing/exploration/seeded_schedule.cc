#include "testing/exploration/seeded_schedule.h"

#include "absl/strings/str_cat.h"

namespace muonshard::testing {
namespace {

constexpr uint64_t kRandom = 0;
constexpr uint64_t kStarving = kScheduleKinds - 1;

// 2, 3 and 4: few faults need more ordered events, and each more makes one
// harder to find.
int32_t PctDepth(uint64_t kind) { return static_cast<int32_t>(kind) + 1; }

}  // namespace

std::string ScheduleKindName(uint64_t seed) {
  const uint64_t kind = seed % kScheduleKinds;
  if (kind == kRandom) return "random";
  if (kind == kStarving) return "starving";
  return absl::StrCat("pct-", PctDepth(kind));
}

bool DependsOnLength(uint64_t seed) {
  const uint64_t kind = seed % kScheduleKinds;
  return kind != kRandom && kind != kStarving;
}

std::unique_ptr<SimScheduler> NewSeededScheduler(uint64_t seed,
                                                 uint64_t choice_count) {
  const uint64_t kind = seed % kScheduleKinds;
  if (kind == kRandom) return NewRandomScheduler(seed);
  if (kind == kStarving) return NewStarvingScheduler(seed);
  return NewPctScheduler(
      {.seed = seed, .depth = PctDepth(kind), .choice_count = choice_count});
}

}  // namespace muonshard::testing
