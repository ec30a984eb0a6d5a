// What the tests of hierarchies over several ranks share.

#ifndef COLLECTIVES_TESTING_HIERARCHY_TEST_H_
#define COLLECTIVES_TESTING_HIERARCHY_TEST_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectives/collective.h"
#include "testing/conformance/hierarchical_group.h"
#include "testing/rank_harness.h"

namespace muonshard::testing {

struct HierarchyShape {
  int32_t hosts;
  int32_t lanes;

  int32_t size() const { return hosts * lanes; }
  std::string name() const {
    return absl::StrCat(hosts, " hosts of ", lanes, " lanes");
  }
};

inline size_t IndexOf(Rank rank) { return static_cast<size_t>(ToInt(rank)); }

// Degenerate, even and odd ones.
inline constexpr HierarchyShape kHierarchyShapes[] = {
    {1, 3}, {3, 1}, {2, 2}, {3, 2}, {2, 3}};

class HierarchyTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  // Runs `program` on every rank of a hierarchy over loopback, which is the
  // context's world.
  static std::vector<absl::Status> Run(
      const HierarchyShape& shape,
      const std::function<absl::Status(RankContext&)>& program,
      const std::string& plugin_options = "") {
    const std::function<absl::Status(RankContext&)> on_hierarchy =
        [&](RankContext& context) -> absl::Status {
      absl::StatusOr<std::unique_ptr<Collective>> hierarchy =
          NewHierarchy(context, std::move(context.world), shape.lanes,
                       context.plugin, context.plugin);
      if (!hierarchy.ok()) return hierarchy.status();
      context.world = *std::move(hierarchy);
      return program(context);
    };
    return RunOnRanks({.runtime = GetParam(),
                       .size = shape.size(),
                       .plugin_options = plugin_options},
                      on_hierarchy)
        .results;
  }

  // Waits until the ranks [begin, end) have come here, without the groups
  // under test.
  static absl::Status MeetInStore(RankContext& context, int32_t begin,
                                  int32_t end, const std::string& name) {
    const auto key = [&](int32_t r) { return absl::StrCat(name, "/", r); };
    if (absl::Status s = context.store.Put(key(ToInt(context.rank)), "here");
        !s.ok()) {
      return s;
    }
    for (int32_t r = begin; r < end; ++r) {
      const auto come =
          context.store.Get(key(r), GuardDeadline(context.runtime));
      if (!come.ok()) return come.status();
    }
    return absl::OkStatus();
  }

  static absl::Status WaitFor(RankContext& context,
                              const absl::StatusOr<Work>& work) {
    if (!work.ok()) return work.status();
    return work->Wait(GuardDeadline(context.runtime));
  }
};

}  // namespace muonshard::testing

#endif  // COLLECTIVES_TESTING_HIERARCHY_TEST_H_
