#include "testing/exploration/fault_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using loopback::Fault;

// A run of three ranks without parameters, in which `results` came of `plan`.
struct Told {
  std::string plan;
  std::vector<absl::Status> results;
  std::string report = "live works: 0\nlive communicators: 0\n";
  absl::Duration simulated = absl::ZeroDuration();
  absl::Duration simulated_afterwards = absl::ZeroDuration();
};

absl::Status Check(const Told& told) {
  std::vector<Fault> faults;
  EXPECT_TRUE(loopback::ParseFaultPlan(told.plan, &faults).ok());
  ShardedCase sharded;
  sharded.options.timeout = absl::Seconds(30);
  UnshardedRun undisturbed;
  undisturbed.parameters.resize(3);
  RecoveredRun run;
  run.disturbed.results = told.results;
  run.disturbed.plugin_report = told.report;
  run.disturbed.simulated = told.simulated;
  run.continued = true;
  run.whole.results.resize(3);
  run.whole.parameters.resize(3);
  run.whole.outcomes.resize(3);
  run.whole.scalers.resize(3);
  run.whole.simulated = told.simulated_afterwards;
  return CheckRecovered(sharded, faults, run, undisturbed);
}

constexpr char kDeath[] = "die rank=1 before=7";

absl::Status Missing(const char* text = "missing rank 1") {
  return absl::DeadlineExceededError(text);
}

Told Death() {
  return {.plan = kDeath,
          .results = {Missing(), absl::AbortedError("rank 1 died by a fault"),
                      Missing("missing ranks 0, 1; held up")},
          .simulated = absl::Seconds(60)};
}

absl::Status Agreed(const char* more = "") {
  return absl::AbortedError(
      std::string("the step was not taken: the reduction of the bucket of "
                  "parameter \"w\" failed on rank 2") +
      more);
}

TEST(FaultChecks, ADeathThatAllAreToldOfHolds) {
  EXPECT_THAT(Check(Death()), IsOk());
}

TEST(FaultChecks, ADeathIsToldToEachWithItsCodeAndRank) {
  for (const absl::Status& other :
       {Missing("missing rank 11"), Missing("missing ranks 0, 2; 1 of 3 came"),
        absl::AbortedError("missing rank 1"),
        absl::AbortedError("aborted by rank 0: DEADLINE_EXCEEDED: rank 1"),
        absl::UnknownError("missing rank 1")}) {
    Told told = Death();
    told.results[2] = other;
    EXPECT_THAT(Check(told),
                StatusIs(absl::StatusCode::kDataLoss, "rank 2: want the cause"))
        << other;
  }
}

TEST(FaultChecks, TheDeadKnowThatTheyDied) {
  for (const absl::Status& dead :
       {absl::OkStatus(), Missing(), absl::AbortedError("rank 0 died")}) {
    Told told = Death();
    told.results[1] = dead;
    EXPECT_THAT(Check(told),
                StatusIs(absl::StatusCode::kDataLoss, "rank 1: want ABORTED"))
        << dead;
  }
}

TEST(FaultChecks, NothingIsLeftAndNobodyWaitsTooLong) {
  Told works = Death();
  works.report = "live works: 1\nlive communicators: 0\n";
  EXPECT_THAT(Check(works),
              StatusIs(absl::StatusCode::kDataLoss, "want live works: 0"));
  Told unreached = Death();
  unreached.report += "fault \"die rank=1 before=7\": not reached\n";
  EXPECT_THAT(Check(unreached),
              StatusIs(absl::StatusCode::kDataLoss, "want the fault reached"));
  Told late = Death();
  late.simulated = absl::Seconds(68);
  EXPECT_THAT(Check(late),
              StatusIs(absl::StatusCode::kDataLoss, "want an end within"));
  Told afterwards = Death();
  afterwards.simulated_afterwards = absl::Seconds(30);
  EXPECT_THAT(Check(afterwards),
              StatusIs(absl::StatusCode::kDataLoss, "every wait woken"));
}

TEST(FaultChecks, WhatDoesNoHarmFailsNobody) {
  for (const char* plan : {"duplicate rank=1 at=3", "late rank=1 at=3 ns=5"}) {
    EXPECT_THAT(Check({.plan = plan,
                       .results = {Missing(), absl::OkStatus(), Missing()}}),
                StatusIs(absl::StatusCode::kDataLoss, "faults that do no harm"))
        << plan;
  }
}

TEST(FaultChecks, AnAbortTellsTheCodeOfTheRankThatWasHit) {
  const auto told = [](const char* text) {
    return Check({.plan = "corrupt rank=1 at=3",
                  .results = {absl::DataLossError("the message of rank 1"),
                              absl::OkStatus(), absl::AbortedError(text)}});
  };
  EXPECT_THAT(told("aborted by rank 0: DATA_LOSS: the message of rank 1"),
              IsOk());
  EXPECT_THAT(told("aborted by rank 0 (1 of the world): DATA_LOSS"), IsOk());
  EXPECT_THAT(told("aborted by rank 1 (2 of the world): DATA_LOSS"), IsOk());
  EXPECT_THAT(told("aborted by rank 0: the message of rank 1"),
              StatusIs(absl::StatusCode::kDataLoss, "rank 2: want the cause"));
  EXPECT_THAT(told("aborted by rank 0: DATA_LOSS: the message of rank 2"),
              StatusIs(absl::StatusCode::kDataLoss, "rank 2: want the cause"));
}

TEST(FaultChecks, WhatIsAgreedUponIsTheSameOnAllAndKnownToTheOneItNames) {
  const auto told = [](const absl::Status& first, const absl::Status& last) {
    return Check({.plan = "memory rank=1 at=3",
                  .results = {first, absl::OkStatus(), last}});
  };
  EXPECT_THAT(told(Agreed(), Agreed("; here: out of memory")), IsOk());
  EXPECT_THAT(told(Agreed(), Agreed()),
              StatusIs(absl::StatusCode::kDataLoss, "rank 2: want why"));
  EXPECT_THAT(told(Agreed("0"), Agreed("; here: out of memory")),
              StatusIs(absl::StatusCode::kDataLoss, "rank 2: want the cause"));
}

}  // namespace
}  // namespace muonshard::testing
