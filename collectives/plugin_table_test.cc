#include "collectives/plugin_table.h"

#include <gtest/gtest.h>

#include <cstring>

#include "collectives/testing/solo_plugin.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

TEST(PluginTableTest, ATableOfThisVersionIsTakenWhole) {
  muonshard_plugin_table given = SoloTable();
  given.work_after = [](muonshard_work, void*, muonshard_status*) {
    return muonshard_code{MUONSHARD_OK};
  };
  const absl::StatusOr<muonshard_plugin_table> table = ReadPluginTable(given);
  ASSERT_THAT(table, IsOk());
  EXPECT_EQ(std::memcmp(&*table, &given, sizeof(given)), 0);
}

TEST(PluginTableTest, WhatAnOlderTableLacksIsNull) {
  muonshard_plugin_table given = SoloTable();
  // What lies behind the end of the older table is not its own.
  given.work_after = [](muonshard_work, void*, muonshard_status*) {
    return muonshard_code{MUONSHARD_OK};
  };
  given.abi_minor = 0;
  given.header.size = MUONSHARD_END(muonshard_plugin_table, work_free);
  const absl::StatusOr<muonshard_plugin_table> table = ReadPluginTable(given);
  ASSERT_THAT(table, IsOk());
  EXPECT_EQ(table->work_after, nullptr);
  EXPECT_EQ(table->work_free, given.work_free);
}

TEST(PluginTableTest, EachMinorVersionEndsWithItsOwnSlot) {
  muonshard_plugin_table given = SoloTable();
  ASSERT_NE(given.report, nullptr);
  given.abi_minor = 1;
  given.header.size = MUONSHARD_END(muonshard_plugin_table, work_after);
  const absl::StatusOr<muonshard_plugin_table> table = ReadPluginTable(given);
  ASSERT_THAT(table, IsOk());
  EXPECT_EQ(table->report, nullptr);
  // A table of minor 2 must be as long as that version.
  given.abi_minor = 2;
  EXPECT_THAT(ReadPluginTable(given),
              StatusIs(absl::StatusCode::kFailedPrecondition, "long"));
}

TEST(PluginTableTest, ATableShorterThanItsVersionIsRefused) {
  muonshard_plugin_table given = SoloTable();
  given.header.size = MUONSHARD_END(muonshard_plugin_table, work_free);
  EXPECT_THAT(ReadPluginTable(given),
              StatusIs(absl::StatusCode::kFailedPrecondition, "long"));
  given.header.size = 0;
  EXPECT_THAT(ReadPluginTable(given),
              StatusIs(absl::StatusCode::kFailedPrecondition, "0 bytes"));
}

TEST(PluginTableTest, SlotsOfOptionalFeaturesMayBeEmpty) {
  const muonshard_plugin_table given = SoloTable();
  EXPECT_EQ(given.comm_split, nullptr);
  EXPECT_EQ(given.memory_new, nullptr);
  EXPECT_THAT(ReadPluginTable(given), IsOk());
}

TEST(PluginTableTest, EveryOtherSlotMustBeThere) {
  // Everything between `build` and the end is a slot.
  constexpr size_t kBegin = offsetof(muonshard_plugin_table, name);
  constexpr size_t kEnd = MUONSHARD_END(muonshard_plugin_table, work_free);
  int refused = 0;
  for (size_t at = kBegin; at < kEnd; at += sizeof(void*)) {
    muonshard_plugin_table given = SoloTable();
    std::memset(reinterpret_cast<char*>(&given) + at, 0, sizeof(void*));
    if (!ReadPluginTable(given).ok()) ++refused;
  }
  // All but comm_split and the three slots of memory.
  EXPECT_EQ(refused, static_cast<int>((kEnd - kBegin) / sizeof(void*)) - 4);
}

}  // namespace
}  // namespace muonshard
