// Faults inside a Resync, at any of its operations: all ranks are told whose it
// was, none hangs, and what comes after goes on bit for bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "testing/rank_harness.h"
#include "testing/recovery/resync_run.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::LostResult;
using ::muonshard::testing::OperationRange;
using ::muonshard::testing::ResyncRun;
using ::muonshard::testing::RunFromCopies;
using ::muonshard::testing::RunResyncs;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::RunUnsharded;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::StatusIs;
using ::muonshard::testing::UnshardedRun;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr size_t kRanks = 3;
// Rank 1 has not decided step 2, so that a Resync uses all of its operations.
const LostResult kBehind = {.label = "control of step 2, sums", .losers = {1}};

class ResyncFaultTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    sharded_.steps = 3;
    sharded_.options.timeout = absl::Seconds(3);
    auto want = RunUnsharded(sharded_);
    ASSERT_THAT(want, IsOk());
    want_ = *std::move(want);
    const ResyncRun whole = Run({}, 1);
    ASSERT_THAT(whole.results, Each(IsOk()));
    ASSERT_TRUE(whole.parameters == want_.parameters);
    for (size_t r = 0; r < kRanks; ++r) {
      ranges_.push_back(whole.operations[r][1]);
      // Agreement, standings, two broadcasts, two splits, two gathers, the end.
      ASSERT_GE(ranges_[r].end - ranges_[r].begin, 9);
    }
  }

  ResyncRun Run(const std::string& faults, size_t resyncs) const {
    std::vector<LostResult> lost(resyncs);
    lost[0] = kBehind;
    return RunResyncs(
        sharded_,
        {.runtime = Simulated(), .faults = faults, .lost = std::move(lost)});
  }

  static RuntimeCase Simulated() {
    return {.kind = RuntimeCase::Kind::kSim, .seed = GetParam()};
  }

  // A fault in the first of two Resyncs; behind the second all is as it was.
  ResyncRun RunAndResync(const char* kind, size_t rank, int64_t at) const {
    const std::string fault = absl::StrCat(kind, " rank=", rank, " at=", at);
    ResyncRun run = Run(fault, 2);
    EXPECT_THAT(run.results, Each(IsOk())) << fault;
    EXPECT_TRUE(run.parameters == want_.parameters) << fault;
    EXPECT_THAT(run.plugin_report,
                HasSubstr(absl::StrCat("\"", fault, "\": reached")));
    return run;
  }

  // Each operation of a Resync on each rank.
  void ForEachPlace(
      const std::function<void(size_t rank, int64_t at)>& at_place) const {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      for (int64_t at = ranges_[rank].begin; at < ranges_[rank].end; ++at) {
        SCOPED_TRACE(absl::StrCat("rank ", rank, ", operation ", at));
        at_place(rank, at);
      }
    }
  }

  ShardedCase sharded_ = SmallCase();
  UnshardedRun want_;
  std::vector<OperationRange> ranges_;  // Of a Resync, by rank.
};

// What a fault of a kind ends with, for the rank that has it and for the
// others.
struct Ends {
  const char* kind;
  absl::StatusCode own;
  absl::StatusCode others;
};

// What all ranks say alike: the cause without the place where it was met. Empty
// if the rank with the fault is not named.
std::string CauseIn(const absl::Status& status, size_t rank) {
  const std::string message(status.message());
  for (const char* cause :
       {"missing rank ", "aborted by rank ", "the message of rank "}) {
    const size_t at = message.find(absl::StrCat(cause, rank));
    if (at != std::string::npos) return message.substr(at);
  }
  const size_t at = message.find(absl::StrCat("rank ", rank, " of the world"));
  return at == std::string::npos ? "" : message.substr(at);
}

// A fault of one rank at one operation of the first Resync.
void ExpectToldToAll(const Ends& ends, size_t rank, const ResyncRun& run) {
  std::set<std::string> causes;
  for (size_t r = 0; r < kRanks; ++r) {
    const absl::Status& attempt = run.attempts[r][1];
    EXPECT_EQ(attempt.code(), r == rank ? ends.own : ends.others)
        << "rank " << r << ": " << attempt;
    if (attempt.code() == absl::StatusCode::kResourceExhausted) continue;
    causes.insert(CauseIn(attempt, rank));
  }
  EXPECT_THAT(causes, ElementsAre(Not(IsEmpty())));
}

// Gradients are released behind an update; the rank that is behind has yet to
// make it from its own.
TEST_P(ResyncFaultTest, ReleasedGradientsAreKeptWhereOthersDecided) {
  sharded_.options.release_gradients = true;
  const ResyncRun run = Run({}, 1);
  EXPECT_THAT(run.results, Each(IsOk()));
  EXPECT_TRUE(run.parameters == want_.parameters);
}

TEST_P(ResyncFaultTest, IsToldToAllAndResyncedOnceMore) {
  for (const Ends& ends : {Ends{"corrupt", absl::StatusCode::kDataLoss,
                                absl::StatusCode::kDataLoss},
                           Ends{"lose", absl::StatusCode::kDeadlineExceeded,
                                absl::StatusCode::kDeadlineExceeded}}) {
    ForEachPlace([&](size_t rank, int64_t at) {
      ExpectToldToAll(ends, rank, RunAndResync(ends.kind, rank, at));
    });
  }
}

TEST_P(ResyncFaultTest, ACallWithoutMemoryIsToldToAllAndResyncedOnceMore) {
  ForEachPlace([&](size_t rank, int64_t at) {
    const ResyncRun run = RunAndResync("memory", rank, at);
    // Gathers are aborted; of other calls the deadline tells.
    const absl::Status& other = run.attempts[(rank + 1) % kRanks][1];
    const bool gather =
        absl::StrContains(run.attempts[rank][1].message(), "gather of step 2");
    EXPECT_EQ(absl::IsAborted(other), gather);
    ExpectToldToAll({"memory", absl::StatusCode::kResourceExhausted,
                     gather ? absl::StatusCode::kAborted
                            : absl::StatusCode::kDeadlineExceeded},
                    rank, run);
  });
}

// It may come when all that it could end has ended.
TEST_P(ResyncFaultTest, AnAbortIsToldToAllAndResyncedOnceMore) {
  int told = 0;
  ForEachPlace([&](size_t rank, int64_t at) {
    const ResyncRun run = RunAndResync("abort", rank, at);
    if (run.attempts[rank][1].ok()) {
      for (size_t r = 0; r < kRanks; ++r) {
        EXPECT_THAT(run.attempts[r][1], IsOk());
      }
      return;
    }
    ++told;
    ExpectToldToAll(
        {"abort", absl::StatusCode::kAborted, absl::StatusCode::kAborted}, rank,
        run);
  });
  EXPECT_GT(told, 12);
}

TEST_P(ResyncFaultTest, ADeathIsToldToAllAndRestoredFromCopies) {
  ForEachPlace([&](size_t rank, int64_t at) {
    for (const char* when : {"before", "after"}) {
      const std::string fault =
          absl::StrCat("die rank=", rank, " ", when, "=", at);
      SCOPED_TRACE(fault);
      const ResyncRun run = Run(fault, 1);
      for (size_t r = 0; r < kRanks; ++r) {
        const std::string message(run.results[r].message());
        if (r == rank) {
          EXPECT_THAT(run.results[r],
                      StatusIs(absl::StatusCode::kAborted,
                               absl::StrCat("rank ", rank,
                                            " died by a fault at operation ",
                                            at, " (")));
          continue;
        }
        EXPECT_THAT(run.results[r],
                    StatusIs(absl::StatusCode::kDeadlineExceeded,
                             absl::StrCat("missing rank ", rank)));
        // Nobody else is to blame.
        EXPECT_THAT(message, Not(HasSubstr("held up")));
      }
      EXPECT_THAT(run.plugin_report, HasSubstr("live works: 0\n"));
      EXPECT_THAT(run.plugin_report, HasSubstr("live communicators: 0\n"));
      // The one of the Resync, or of the step behind it.
      EXPECT_LE(run.simulated, sharded_.options.timeout * 9 / 8);
      EXPECT_TRUE(RunFromCopies(sharded_, Simulated(), run.copies) ==
                  want_.parameters);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Seeds, ResyncFaultTest, ::testing::Values(1));

}  // namespace
}  // namespace muonshard
