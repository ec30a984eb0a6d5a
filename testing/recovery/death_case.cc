#include "testing/recovery/death_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "optimizer/options.h"
#include "testing/combination/combination.h"
#include "testing/combination/combination_mesh.h"
#include "testing/operation_count.h"
#include "testing/rank_harness.h"
#include "testing/recovery/blame.h"
#include "testing/recovery/recovered_run.h"
#include "testing/run_difference.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int32_t kTensorRanks = 2;

struct Death {
  int64_t operation = 0;
  bool after = false;  // Else before.
};

// Gathers are lazy, so that a death in one is noticed in the next step.
ShardedCase EverythingAtOnce() {
  const Combination combination = {.overlap = true,
                                   .hierarchy = Hierarchy::kOn,
                                   .scaler = true,
                                   .micro_batches = 2,
                                   .gather = GatherMode::kLazy,
                                   .release_gradients = true};
  ShardedCase sharded = CaseOf(
      {.mesh = absl::StrCat("data=4,tp=", kTensorRanks), .hosts = "AAAABBBB"},
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

  void ExpectRecovered(const Death& death) {
    const std::string fault =
        absl::StrCat("die rank=", rank_,
                     death.after ? " after=" : " before=", death.operation);
    SCOPED_TRACE(fault);
    const RecoveredRun run = RunAndRecover(
        sharded_, {.kind = RuntimeCase::Kind::kSim, .seed = ++seed_},
        {.faults = fault});
    EXPECT_THAT(run.disturbed.ended, IsOk());
    ExpectTold(run.disturbed, death);
    const std::string& report = run.disturbed.plugin_report;
    EXPECT_THAT(report, HasSubstr(absl::StrCat("\"", fault, "\": reached")));
    EXPECT_THAT(report, HasSubstr("live works: 0\n"));
    EXPECT_THAT(report, HasSubstr("live communicators: 0\n"));
    // The making of the world has a deadline of its own. After it, a rank may
    // wait out one timeout for a gather of a skipped step, which tells it
    // nothing, and another one in the next step. A wait lets the error of what
    // it waits for come first.
    EXPECT_LE(run.disturbed.simulated,
              death.operation == 0 ? absl::Minutes(2)
                                   : 2 * sharded_.options.timeout * 9 / 8);
    EXPECT_THAT(CheckSameRun(sharded_, run.whole, undisturbed_), IsOk());
    ++restored_[run.restored_step];
  }

 private:
  // The dead rank that it is, the others who it was, unless they need it no
  // more.
  void ExpectTold(const ShardedRun& run, const Death& death) const {
    const std::string own(run.results[static_cast<size_t>(rank_)].message());
    EXPECT_THAT(own, HasSubstr(absl::StrCat("rank ", rank_,
                                            " died by a fault at operation ",
                                            death.operation, " (")));
    // Once the last step is decided, each rank gathers what its shards have,
    // the others that have these too.
    const bool decided = IsInLastGathers(own, death);
    const bool over = death.after && death.operation + 1 == operation_count_;
    int told_count = 0;
    for (int32_t r = 0; r < kDeathRanks; ++r) {
      if (r == rank_) continue;
      const bool gathers_with_it = r % kTensorRanks == rank_ % kTensorRanks;
      const absl::Status& result = run.results[static_cast<size_t>(r)];
      if (result.ok()) {
        EXPECT_TRUE(decided) << "rank " << r << " was not told";
        continue;
      }
      EXPECT_FALSE(over || (decided && death.after && !gathers_with_it))
          << "rank " << r << " needs nothing more: " << result;
      told_count += gathers_with_it;
      ExpectBlamed(std::string(result.message()), death);
    }
    EXPECT_TRUE(over || told_count > 0) << "nobody missed it";
  }

  bool IsInLastGathers(const std::string& own, const Death& death) const {
    const std::string step = absl::StrCat("step ", sharded_.steps);
    if (death.after &&
        absl::StrContains(own, absl::StrCat("(AllReduce \"control of ", step,
                                            ", least\" of group"))) {
      return true;
    }
    return ::testing::Value(
        own, ContainsRegex(absl::StrCat("\\(AllGatherV \"bucket [0-9]+ gather "
                                        "of ",
                                        step, "\" of group")));
  }

  void ExpectBlamed(const std::string& told, const Death& death) const {
    if (death.after && death.operation == 0) {
      // The making of the group has ended for its peers, and what comes then
      // is exchanged through the store.
      EXPECT_THAT(told, HasSubstr(absl::StrCat("rank ", rank_,
                                               " did not share capabilities")));
      return;
    }
    const std::vector<std::set<int32_t>> blamed = BlamedIn(told);
    EXPECT_THAT(blamed, Not(IsEmpty())) << told;
    EXPECT_THAT(blamed, Each(ElementsAre(rank_))) << told;
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
    deaths.ExpectRecovered({.operation = operation, .after = false});
    deaths.ExpectRecovered({.operation = operation, .after = true});
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
