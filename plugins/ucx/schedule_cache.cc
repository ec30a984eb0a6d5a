#include "plugins/ucx/schedule_cache.h"

#include <algorithm>
#include <vector>

namespace muonshard::ucx {
namespace {

using plugins::Call;
using plugins::Segment;

uint64_t HashOf(const Call& call) {
  uint64_t hash = call.kind;
  const auto add = [&](uint64_t word) {
    hash = (hash ^ word) * 0x9fb21c651e98df25;
    hash ^= hash >> 29;
  };
  add(call.width());
  add(static_cast<uint64_t>(call.root) << 32 ^
      static_cast<uint64_t>(call.peer));
  add(call.in_count);
  add(call.out_count);
  for (const Segment& segment : call.in_segments) add(segment.count);
  for (const Segment& segment : call.out_segments) add(segment.count);
  return hash;
}

bool AreAlike(const std::vector<Segment>& a, const std::vector<Segment>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Segment& x, const Segment& y) {
                      return x.first == y.first && x.count == y.count;
                    });
}

bool AreAlike(const Call& a, const Call& b) {
  return a.kind == b.kind && a.width() == b.width() && a.root == b.root &&
         a.peer == b.peer && a.in_count == b.in_count &&
         a.out_count == b.out_count && AreAlike(a.in_segments, b.in_segments) &&
         AreAlike(a.out_segments, b.out_segments);
}

}  // namespace

std::shared_ptr<const Schedule> ScheduleCache::Of(
    const Call& call, int32_t rank, int32_t size,
    const ScheduleOptions& options) {
  const uint64_t hash = HashOf(call);
  const auto [first, last] = made_.equal_range(hash);
  const auto found = std::find_if(first, last, [&](const auto& entry) {
    return AreAlike(entry.second.shape, call);
  });
  if (found != last) return found->second.schedule;
  if (made_.size() >= kShapesMax) made_.clear();
  Made made = {.shape = call,
               .schedule = std::make_shared<const Schedule>(
                   MakeSchedule(call, rank, size, options))};
  return made_.emplace(hash, std::move(made))->second.schedule;
}

}  // namespace muonshard::ucx
