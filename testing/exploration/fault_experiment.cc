#include "testing/exploration/fault_experiment.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "collectives/runtime/sim_scheduler.h"
#include "collectives/runtime/sim_trace.h"
#include "plugins/loopback/fault_plan.h"
#include "testing/exploration/child_process.h"
#include "testing/exploration/fault_checks.h"
#include "testing/rank_harness.h"
#include "testing/recovery/recovered_run.h"
#include "testing/seeded_random.h"

namespace muonshard::testing {
namespace {

using loopback::Fault;

// Of a wait. Virtual, so that a long one costs nothing.
constexpr absl::Duration kTimeout = absl::Seconds(30);
// Of real time, for a run that is no run of the search.
constexpr absl::Duration kPreparationLimit = absl::Minutes(1);

// How a fault of each kind is written.
struct Form {
  absl::string_view kind;
  absl::string_view key;
};
constexpr std::array<Form, 9> kForms = {{{"die", "before"},
                                         {"die", "after"},
                                         {"late", "at"},
                                         {"lose", "at"},
                                         {"short", "at"},
                                         {"corrupt", "at"},
                                         {"duplicate", "at"},
                                         {"memory", "at"},
                                         {"abort", "at"}}};

struct Plan {
  std::string text;
  std::vector<Fault> faults;
};

absl::StatusOr<Plan> ParsePlan(const std::string& text) {
  Plan plan = {.text = text, .faults = {}};
  const loopback::Outcome outcome =
      loopback::ParseFaultPlan(text, &plan.faults);
  if (!outcome.ok()) return absl::InvalidArgumentError(outcome.text);
  return plan;
}

// The lines that `child` tells, called in a process of its own, where a crash
// is an error. It may tell of an error of its own as its only line.
constexpr char kError[] = "!";
absl::StatusOr<std::vector<std::string>> LinesOf(
    const std::function<void(const Tell&)>& child) {
  std::vector<std::string> lines;
  const absl::Status end = RunInChildren(
      1, [&](size_t, const Tell& tell) { child(tell); },
      [&](size_t, const std::string& line) { lines.push_back(line); },
      kPreparationLimit)[0];
  std::string error;
  if (!end.ok()) error = std::string(end.message());
  if (!lines.empty() && absl::StartsWith(lines[0], kError)) error = lines[0];
  if (error.empty()) return lines;
  return absl::FailedPreconditionError(absl::StrCat(
      "the run does not hold without faults, by the default schedule: ",
      absl::StripPrefix(error, kError)));
}

// By rank, of a run without faults.
absl::StatusOr<std::vector<uint64_t>> OperationCounts(
    const ShardedCase& sharded, const UnshardedRun& undisturbed) {
  const absl::StatusOr<std::vector<std::string>> lines =
      LinesOf([&](const Tell& tell) {
        SimTraceReplay plain{SimTrace()};
        const RecoveredRun run = RunAndRecover(
            sharded, {.kind = RuntimeCase::Kind::kSim, .scheduler = &plain},
            {});
        const absl::Status held = CheckRecovered(sharded, {}, run, undisturbed);
        if (!held.ok()) {
          return tell(absl::StrCat(kError, absl::CEscape(held.ToString())));
        }
        for (const OperationRange& operations : run.disturbed.operations) {
          tell(absl::StrCat(operations.end));
        }
      });
  if (!lines.ok()) return lines.status();
  std::vector<uint64_t> counts(lines->size());
  for (size_t r = 0; r < counts.size(); ++r) {
    if (!absl::SimpleAtoi((*lines)[r], &counts[r]) || counts[r] == 0) {
      return absl::InternalError(
          absl::StrCat("rank ", r, ": want a count of operations, got \"",
                       (*lines)[r], "\""));
    }
  }
  return counts;
}

absl::Status CheckPlan(const Plan& plan,
                       const std::vector<uint64_t>& operation_counts) {
  for (const Fault& fault : plan.faults) {
    const auto rank = static_cast<size_t>(fault.rank);
    if (rank >= operation_counts.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("fault \"", fault.text, "\": want a rank in [0, ",
                       operation_counts.size(), "), got ", fault.rank));
    }
    if (fault.operation >= operation_counts[rank]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "fault \"", fault.text, "\": want an operation in [0, ",
          operation_counts[rank], "), as many as rank ", fault.rank,
          " has in the run without faults, got ", fault.operation));
    }
  }
  return absl::OkStatus();
}

// Refuses a plan of which a fault is kept from happening by the others. A plan
// of one fault is reached, since a rank's operations have one order.
absl::Status CheckReached(const ShardedCase& sharded, const Plan& plan) {
  if (plan.faults.size() < 2) return absl::OkStatus();
  const absl::StatusOr<std::vector<std::string>> lines =
      LinesOf([&](const Tell& tell) {
        SimTraceReplay plain{SimTrace()};
        const RecoveredRun run = RunAndRecover(
            sharded, {.kind = RuntimeCase::Kind::kSim, .scheduler = &plain},
            {.faults = plan.text});
        for (const absl::string_view line :
             absl::StrSplit(run.disturbed.plugin_report, '\n')) {
          if (absl::EndsWith(line, ": not reached")) tell(std::string(line));
        }
      });
  // A crash is the search's to find.
  if (!lines.ok() || lines->empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(lines->front(),
                   " under the default schedule, because of the other faults"));
}

class FaultExperiment final : public Experiment {
 public:
  // No plan: draws.
  FaultExperiment(ShardedCase sharded, UnshardedRun undisturbed,
                  std::vector<uint64_t> operation_counts,
                  std::optional<Plan> plan)
      : sharded_(std::move(sharded)),
        undisturbed_(std::move(undisturbed)),
        operation_counts_(std::move(operation_counts)),
        plan_(std::move(plan)) {}

  ExploredRun Run(const ExploredSchedule& schedule,
                  uint64_t seed) const override {
    const absl::StatusOr<Plan> plan =
        plan_.has_value() ? *plan_ : ParsePlan(DrawFault(seed));
    if (!plan.ok()) return {.result = plan.status()};
    const RecoveredRun run =
        RunAndRecover(sharded_,
                      {.kind = RuntimeCase::Kind::kSim,
                       .scheduler = &schedule.scheduler,
                       .choice_count_max = schedule.choice_count_max},
                      // As in the experiment without faults.
                      {.faults = plan->text,
                       .small_bytes = MixBits(seed) % 2 == 0 ? 64 * 1024 : 0});
    const absl::Status held =
        CheckRecovered(sharded_, plan->faults, run, undisturbed_);
    ExploredRun explored = {.trace_hash = run.disturbed.trace_hash,
                            .choice_count = run.disturbed.choice_count};
    if (run.continued) {
      explored.trace_hash = MixBits(explored.trace_hash) + run.whole.trace_hash;
      explored.choice_count += run.whole.choice_count;
    }
    if (!held.ok()) {
      explored.result = absl::Status(
          held.code(),
          absl::StrCat("with \"", plan->text, "\": ", held.message()));
    }
    return explored;
  }

  bool varies() const override { return !plan_.has_value(); }

 private:
  std::string DrawFault(uint64_t seed) const {
    SeededRandom random(seed);
    const auto rank =
        static_cast<size_t>(random.Below(operation_counts_.size()));
    const uint64_t operation = random.Below(operation_counts_[rank]);
    const Form& form = kForms[static_cast<size_t>(random.Below(kForms.size()))];
    std::string text =
        absl::StrCat(form.kind, " rank=", rank, " ", form.key, "=", operation);
    if (form.kind != "late") return text;
    // Soon enough for everybody, or for nobody.
    const absl::Duration late =
        random.OneIn(2) ? kTimeout / 1000 : 2 * kTimeout;
    return absl::StrCat(text, " ns=", absl::ToInt64Nanoseconds(late));
  }

  const ShardedCase sharded_;
  const UnshardedRun undisturbed_;
  const std::vector<uint64_t> operation_counts_;
  const std::optional<Plan> plan_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Experiment>> NewFaultExperiment(
    const ShardedCase& sharded, const UnshardedRun& undisturbed,
    const std::string& faults) {
  std::optional<Plan> plan;
  if (faults != kDrawnFaults) {
    absl::StatusOr<Plan> parsed = ParsePlan(faults);
    if (!parsed.ok()) return parsed.status();
    plan = *std::move(parsed);
  }
  ShardedCase with_deadline = sharded;
  with_deadline.goes_on_after_errors = false;
  with_deadline.options.timeout = kTimeout;
  absl::StatusOr<std::vector<uint64_t>> counts =
      OperationCounts(with_deadline, undisturbed);
  if (!counts.ok()) return counts.status();
  if (plan.has_value()) {
    absl::Status s = CheckPlan(*plan, *counts);
    if (s.ok()) s = CheckReached(with_deadline, *plan);
    if (!s.ok()) return s;
  }
  return std::make_unique<FaultExperiment>(std::move(with_deadline),
                                           undisturbed, *std::move(counts),
                                           std::move(plan));
}

}  // namespace muonshard::testing
