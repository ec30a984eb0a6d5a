// The contract of collectives/collective.h as tests, for any plugin.
//
// A plugin joins in one statement, in a test of its own that links
// //testing/conformance and has the shared object in its data:
//
//   MUONSHARD_INSTANTIATE_COLLECTIVE_CONFORMANCE(Loopback, "loopback");
//
// and a second time as the levels of hierarchies:
//
//   MUONSHARD_INSTANTIATE_HIERARCHICAL_CONFORMANCE(Hierarchy, "loopback");
//
// Every test runs through the loader, for groups of 1, 2, 3, 4, 8 and 16
// ranks, or hierarchies of 2 x 2, 3 x 2, 2 x 4, 4 x 2 and 4 x 4, on threads and
// on the simulated runtime; a plugin that needs real time joins with
// MUONSHARD_INSTANTIATE_REAL_TIME_CONFORMANCE, on threads alone. Tests of
// promised capabilities skip themselves where a plugin does not make the
// promise. There is no other way to leave a test out.

#ifndef TESTING_CONFORMANCE_COLLECTIVE_CONFORMANCE_H_
#define TESTING_CONFORMANCE_COLLECTIVE_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/capabilities.h"
#include "collectives/collective.h"
#include "testing/conformance/exchange.h"
#include "testing/rank_harness.h"

namespace muonshard::testing {

struct ConformanceCase {
  std::string plugin;  // A name or a path.
  int32_t size;
  RuntimeCase runtime;
  int32_t lanes = 1;  // Of each host. 1: a flat group.
};

// One case on threads, and one or more seeds of the simulated runtime, for
// each size of at least `size_min`. Small groups get more seeds.
std::vector<ConformanceCase> ConformanceCases(absl::string_view plugin,
                                              int32_t size_min);

// Those of them that run on threads.
std::vector<ConformanceCase> RealTimeConformanceCases(absl::string_view plugin,
                                                      int32_t size_min);

// The same for hierarchies; the numbers of lanes are powers of 2, so that a
// mean over a host of what is exact is exact.
std::vector<ConformanceCase> HierarchicalConformanceCases(
    absl::string_view plugin);

void PrintTo(const ConformanceCase& conformance_case, std::ostream* out);

// "Ranks3Sim2", "Hosts2Lanes4Sim1".
std::string ConformanceCaseName(
    const ::testing::TestParamInfo<ConformanceCase>& info);

// The tests that hold for every group.
class CollectiveConformance : public ::testing::TestWithParam<ConformanceCase> {
 protected:
  int32_t size() const { return GetParam().size; }
  size_t ranks() const { return static_cast<size_t>(size()); }
  int32_t lanes() const { return GetParam().lanes; }
  Rank last() const { return Rank{size() - 1}; }

  // What all groups of the plugin promise.
  Capabilities Promises() const;

  // Runs `program` on every rank of a new group and returns the results in
  // rank order.
  std::vector<absl::Status> OnEveryRank(
      const std::function<absl::Status(Collective&)>& program) const;
  std::vector<absl::Status> OnEveryRank(
      const std::function<absl::Status(RankContext&)>& program) const;

  // Another group of the same ranks. A collective call.
  absl::StatusOr<std::unique_ptr<Collective>> NewSecondGroup(
      RankContext& context) const;

  // Makes the calls in one group and checks that they succeed, that every
  // output is as wanted, bit for bit, and that nothing else was written.
  void ExpectExchanges(std::vector<Exchange> exchanges,
                       Pace pace = Pace::kOneByOne) const;

 private:
  // The group under test that has the ranks of `whole`.
  absl::StatusOr<std::unique_ptr<Collective>> GroupOver(
      RankContext& context, std::unique_ptr<Collective> whole) const;
};

// The tests that take at least two ranks.
class PeerConformance : public CollectiveConformance {};

// The result of a call: why it was not posted, or what its work ended with.
absl::Status Finish(Collective& group, const absl::StatusOr<Work>& work);

inline size_t IndexOf(Rank rank) { return static_cast<size_t>(ToInt(rank)); }

#define MUONSHARD_INSTANTIATE_CONFORMANCE_CASES(NAME, ALL, WITH_PEERS) \
  INSTANTIATE_TEST_SUITE_P(NAME, CollectiveConformance,                \
                           ::testing::ValuesIn(ALL),                   \
                           ::muonshard::testing::ConformanceCaseName); \
  INSTANTIATE_TEST_SUITE_P(NAME, PeerConformance,                      \
                           ::testing::ValuesIn(WITH_PEERS),            \
                           ::muonshard::testing::ConformanceCaseName)

#define MUONSHARD_INSTANTIATE_COLLECTIVE_CONFORMANCE(NAME, PLUGIN) \
  MUONSHARD_INSTANTIATE_CONFORMANCE_CASES(                         \
      NAME, ::muonshard::testing::ConformanceCases(PLUGIN, 1),     \
      ::muonshard::testing::ConformanceCases(PLUGIN, 2))

#define MUONSHARD_INSTANTIATE_REAL_TIME_CONFORMANCE(NAME, PLUGIN)      \
  MUONSHARD_INSTANTIATE_CONFORMANCE_CASES(                             \
      NAME, ::muonshard::testing::RealTimeConformanceCases(PLUGIN, 1), \
      ::muonshard::testing::RealTimeConformanceCases(PLUGIN, 2))

#define MUONSHARD_INSTANTIATE_HIERARCHICAL_CONFORMANCE(NAME, PLUGIN)    \
  MUONSHARD_INSTANTIATE_CONFORMANCE_CASES(                              \
      NAME, ::muonshard::testing::HierarchicalConformanceCases(PLUGIN), \
      ::muonshard::testing::HierarchicalConformanceCases(PLUGIN))

}  // namespace muonshard::testing

#endif  // TESTING_CONFORMANCE_COLLECTIVE_CONFORMANCE_H_
