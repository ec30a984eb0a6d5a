// What the tests of loopback through the loader share.

#ifndef PLUGINS_LOOPBACK_LOOPBACK_TEST_H_
#define PLUGINS_LOOPBACK_LOOPBACK_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/plugin.h"
#include "collectives/work.h"
#include "testing/rank_harness.h"
#include "topology/rank.h"

namespace muonshard::testing {

class LoopbackTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  static std::vector<absl::Status> Run(
      int32_t size, const std::function<absl::Status(RankContext&)>& program,
      const std::string& options = "") {
    return RunOnRanks(
               {.runtime = GetParam(), .size = size, .plugin_options = options},
               program)
        .results;
  }
};

inline absl::StatusOr<std::unique_ptr<Collective>> NewGroup(
    RankContext& context, Plugin& plugin, int32_t size, std::string name,
    absl::Time deadline) {
  return plugin.NewGroup({.rank = context.rank,
                          .size = size,
                          .name = std::move(name),
                          .deadline = deadline,
                          .store = &context.store});
}

inline absl::Status WaitFor(RankContext& context,
                            const absl::StatusOr<Work>& work) {
  if (!work.ok()) return work.status();
  return work->Wait(GuardDeadline(context.runtime));
}

// Waits until every rank has come here, without the group under test.
inline absl::Status MeetInStore(RankContext& context, int32_t size,
                                const std::string& name) {
  const auto key = [&](int32_t rank) { return absl::StrCat(name, "/", rank); };
  if (absl::Status s = context.store.Put(key(ToInt(context.rank)), "here");
      !s.ok()) {
    return s;
  }
  for (int32_t rank = 0; rank < size; ++rank) {
    const auto come =
        context.store.Get(key(rank), GuardDeadline(context.runtime));
    if (!come.ok()) return come.status();
  }
  return absl::OkStatus();
}

}  // namespace muonshard::testing

#endif  // PLUGINS_LOOPBACK_LOOPBACK_TEST_H_
