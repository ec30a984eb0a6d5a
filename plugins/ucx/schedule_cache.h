// Schedules of calls that were made before: an optimizer makes the same ones
// step after step.
//
// Threads      One at a time.

#ifndef PLUGINS_UCX_SCHEDULE_CACHE_H_
#define PLUGINS_UCX_SCHEDULE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "plugins/support/call.h"
#include "plugins/ucx/schedule.h"

namespace muonshard::ucx {

class ScheduleCache {
 public:
  // Beyond so many shapes of calls it begins anew.
  static constexpr size_t kShapesMax = 256;

  // As MakeSchedule; one cache has one rank, size and options.
  std::shared_ptr<const Schedule> Of(const plugins::Call& call, int32_t rank,
                                     int32_t size,
                                     const ScheduleOptions& options);
  size_t count() const { return made_.size(); }

 private:
  struct Made {
    // All that a schedule depends on.
    plugins::Call shape;
    std::shared_ptr<const Schedule> schedule;
  };

  std::unordered_multimap<uint64_t, Made> made_;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_SCHEDULE_CACHE_H_
