#include "plugins/ucx/schedule_cache.h"

#include <gtest/gtest.h>

#include "collectives/plugin_abi.h"

namespace muonshard::ucx {
namespace {

plugins::Call Reduction(uint64_t count) {
  plugins::Call call;
  call.kind = MUONSHARD_ALL_REDUCE;
  call.reduction = {MUONSHARD_F32, MUONSHARD_SUM};
  call.in_count = count;
  call.out_count = count;
  return call;
}

TEST(ScheduleCacheTest, ACallOfTheSameShapeHasTheSameSchedule) {
  ScheduleCache cache;
  plugins::Call call = Reduction(100);
  const auto first = cache.Of(call, 0, 2, {});
  // What a schedule does not depend on.
  call.label = "another";
  call.fingerprint = 5;
  call.reduction.kind = MUONSHARD_MAX;
  call.reduction.data_type = MUONSHARD_I32;
  EXPECT_EQ(cache.Of(call, 0, 2, {}), first);
}

TEST(ScheduleCacheTest, AnotherShapeHasAnother) {
  ScheduleCache cache;
  const auto first = cache.Of(Reduction(100), 0, 2, {});
  EXPECT_NE(cache.Of(Reduction(101), 0, 2, {}), first);
  plugins::Call wide = Reduction(100);
  wide.reduction.data_type = MUONSHARD_F64;
  EXPECT_NE(cache.Of(wide, 0, 2, {}), first);
  plugins::Call scatter = Reduction(100);
  scatter.kind = MUONSHARD_REDUCE_SCATTER_V;
  scatter.in_segments = {{0, 60}, {60, 40}};
  scatter.out_count = 60;
  const auto packed = cache.Of(scatter, 0, 2, {});
  scatter.in_segments[1].first = 59;
  EXPECT_NE(cache.Of(scatter, 0, 2, {}), packed);
  plugins::Call rooted = Reduction(100);
  rooted.kind = MUONSHARD_REDUCE;
  const auto to_zero = cache.Of(rooted, 0, 2, {});
  rooted.root = 1;
  rooted.out_count = 0;
  EXPECT_NE(cache.Of(rooted, 0, 2, {}), to_zero);
}

TEST(ScheduleCacheTest, ItDoesNotGrowForEver) {
  ScheduleCache cache;
  const auto kept = cache.Of(Reduction(1), 0, 2, {});
  for (uint64_t count = 2; count < 3 * ScheduleCache::kShapesMax; ++count) {
    cache.Of(Reduction(count), 0, 2, {});
    EXPECT_LE(cache.count(), ScheduleCache::kShapesMax);
  }
  // Whoever has one keeps it.
  EXPECT_EQ(kept->rounds.size(), 1u);
}

}  // namespace
}  // namespace muonshard::ucx
