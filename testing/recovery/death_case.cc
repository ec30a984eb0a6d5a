#include "testing/recovery/death_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "optimizer/options.h"
#include "testing/combination/combination.h"
#include "testing/combination/combination_mesh.h"
#include "testing/operation_count.h"
#include "testing/rank_harness.h"
#include "testing/recovery/recovered_run.h"
#include "testing/run_difference.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Gathers are lazy, so that a death in one is noticed in the next step.
ShardedCase EverythingAtOnce() {
  const Combination combination = {.overlap = true,
                                   .hierarchy = Hierarchy::kOn,
                                   .scaler = true,
                                   .micro_batches = 2,
                                   .gather = GatherMode::kLazy,
                                   .release_gradients = true};
  ShardedCase sharded = CaseOf({.mesh = "data=4,tp=2", .hosts = "AAAABBBB"},
                               combination, GradientValues::kRandom);
  sharded.goes_on_after_errors = false;
  sharded.options.timeout = absl::Seconds(30);
  return sharded;
}

class Deaths {
 public:
  explicit Deaths(int32_t rank) : rank_(rank) {}

  absl::Status Begin() {
    absl::StatusOr<UnshardedRun> unsharded = RunUnsharded(sharded_);
    if (!unsharded.ok()) return unsharded.status();
    undisturbed_ = *std::move(unsharded);
    const ShardedRun sharded =
        RunSharded(sharded_, {.kind = RuntimeCase::Kind::kSim, .seed = 1});
    operation_count_ = OperationCountIn(sharded.plugin_report, Rank(rank_));
    return CheckSameRun(sharded_, sharded, undisturbed_);
  }

  int64_t operation_count() const { return operation_count_; }
  // How many runs went on from which step.
  const std::map<int64_t, int>& restored() const { return restored_; }

  void ExpectRecovered(int64_t operation, const char* when) {
    const std::string fault =
        absl::StrCat("die rank=", rank_, " ", when, "=", operation);
    SCOPED_TRACE(fault);
    const RecoveredRun run = RunAndRecover(
        sharded_, {.kind = RuntimeCase::Kind::kSim, .seed = ++seed_},
        {.faults = fault});
    ExpectTold(run.disturbed);
    const std::string& report = run.disturbed.plugin_report;
    EXPECT_THAT(report, HasSubstr(absl::StrCat("\"", fault, "\": reached")));
    EXPECT_THAT(report, HasSubstr("live works: 0\n"));
    EXPECT_THAT(report, HasSubstr("live communicators: 0\n"));
    // The making of the world has a deadline of its own. After it, a rank may
    // wait out one timeout for a gather of a skipped step, which tells it
    // nothing, and another one in the next step. A wait lets the error of what
    // it waits for come first.
    EXPECT_LE(run.disturbed.simulated,
              operation == 0 ? absl::Minutes(2)
                             : 2 * sharded_.options.timeout * 9 / 8);
    EXPECT_THAT(CheckSameRun(sharded_, run.whole, undisturbed_), IsOk());
    ++restored_[run.restored_step];
  }

 private:
  // The dead rank that it is, the others who it was. A run may have ended
  // before its last operation was missed.
  void ExpectTold(const ShardedRun& run) const {
    for (int32_t r = 0; r < kDeathRanks; ++r) {
      const absl::Status& result = run.results[static_cast<size_t>(r)];
      if (r != rank_ && result.ok()) continue;
      EXPECT_THAT(
          std::string(result.message()),
          ContainsRegex(absl::StrCat("ranks? ([0-9]+, )*", rank_, "[^0-9]")))
          << "on rank " << r;
    }
  }

  const int32_t rank_;
  const ShardedCase sharded_ = EverythingAtOnce();
  UnshardedRun undisturbed_;
  int64_t operation_count_ = 0;
  uint64_t seed_ = 0;
  std::map<int64_t, int> restored_;
};

}  // namespace

void ExpectDeathsAreRecoveredFrom(int32_t rank, int64_t stride) {
  Deaths deaths(rank);
  ASSERT_THAT(deaths.Begin(), IsOk());
  ASSERT_GT(deaths.operation_count(), 50);
  for (int64_t operation = 0; operation < deaths.operation_count();
       operation += stride) {
    deaths.ExpectRecovered(operation, "before");
    deaths.ExpectRecovered(operation, "after");
  }
  std::cout << "rank " << rank << ", " << deaths.operation_count()
            << " operations:";
  for (const auto& [step, runs] : deaths.restored()) {
    std::cout << " " << runs << " went on from step " << step << ";";
  }
  std::cout << "\n";
  // From the beginning, and from a step in the middle.
  EXPECT_EQ(deaths.restored().count(0), 1u);
  EXPECT_EQ(deaths.restored().count(1), 1u);
}

}  // namespace muonshard::testing
