#include "testing/recovery/fault_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "testing/run_difference.h"
#include "testing/sharded_run.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Not;

bool Names(const std::string& text, int32_t rank) {
  return ::testing::Value(
      text, ContainsRegex(absl::StrCat("(ranks? |, |[(])", rank, "[^0-9]")));
}

// The rank whose reduction failed, as all are told by the control of a step.
std::string RankOfReductionIn(const std::string& text) {
  constexpr char kFailed[] = "\" failed on rank ";
  const size_t at = text.find(kFailed);
  if (at == std::string::npos) return "none";
  const size_t begin = at + sizeof(kFailed) - 1;
  return text.substr(begin,
                     text.find_first_not_of("0123456789", begin) - begin);
}

// What each rank was told that recovered: that it was `rank`, or which rank's
// reduction failed, and that one was told that it was `rank`.
void ExpectTold(const ShardedRun& run, int32_t rank,
                std::vector<std::string>& told) {
  for (size_t r = 0; r < run.failures.size(); ++r) {
    if (run.failures[r].empty()) continue;
    told.emplace_back(run.failures[r].front().message());
    if (Names(told.back(), rank)) continue;
    size_t other = run.failures.size();
    ASSERT_TRUE(absl::SimpleAtoi(RankOfReductionIn(told.back()), &other))
        << "rank " << r << " was told " << told.back();
    ASSERT_LT(other, run.failures.size());
    ASSERT_FALSE(run.failures[other].empty());
    const std::string cause(run.failures[other].front().message());
    EXPECT_TRUE(Names(cause, rank))
        << "rank " << other << " was told " << cause;
  }
}

}  // namespace

std::vector<std::string> ExpectUndisturbed(const ShardedCase& sharded,
                                           const RuntimeCase& runtime,
                                           const FaultSweep& sweep) {
  std::vector<std::string> told;
  const auto want = RunUnsharded(sharded);
  EXPECT_THAT(want, IsOk());
  const ShardedRun whole = RunSharded(sharded, runtime);
  EXPECT_THAT(CheckSameRun(sharded, whole, *want), IsOk());
  EXPECT_THAT(whole.recoveries, Each(0));
  const auto [begin, end] = whole.operations[static_cast<size_t>(sweep.rank)];
  EXPECT_LT(begin, end);
  const bool threads = runtime.kind == RuntimeCase::Kind::kThreads;
  for (int64_t at = begin; at < end; at += sweep.stride * (threads ? 7 : 1)) {
    const std::string fault =
        absl::StrCat(sweep.kind, " rank=", sweep.rank, " at=", at);
    SCOPED_TRACE(fault);
    const ShardedRun run = RunSharded(
        sharded, runtime,
        {.plugin_options = absl::StrCat("{\"faults\": \"", fault, "\"}")});
    const absl::Status same = CheckSameRun(sharded, run, *want);
    EXPECT_THAT(same, IsOk());
    if (!same.ok()) break;
    EXPECT_TRUE(run.states == whole.states);
    ExpectTold(run, sweep.rank, told);
  }
  EXPECT_THAT(told, Not(IsEmpty()));
  return told;
}

}  // namespace muonshard::testing
