#include "testing/exploration/fault_checks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "testing/run_difference.h"

namespace muonshard::testing {
namespace {

using loopback::Fault;

bool IsDeath(const Fault& fault) {
  return fault.kind == Fault::Kind::kDieBefore ||
         fault.kind == Fault::Kind::kDieAfter;
}

bool DoesNoHarm(const Fault& fault, absl::Duration timeout) {
  return fault.kind == Fault::Kind::kDuplicate ||
         (fault.kind == Fault::Kind::kLate &&
          absl::Nanoseconds(fault.late_ns) < timeout);
}

// "rank 3", or "ranks 1, 3, 12" for each of the three, or "(3 of the world)".
bool NamesRank(absl::string_view text, int32_t rank) {
  const std::string wanted = absl::StrCat(rank);
  if (absl::StrContains(text, absl::StrCat("(", wanted, " of the world)"))) {
    return true;
  }
  for (size_t at = text.find("rank"); at != absl::string_view::npos;
       at = text.find("rank", at + 1)) {
    absl::string_view rest = text.substr(at + 4);
    if (!rest.empty() && rest.front() == 's') rest.remove_prefix(1);
    if (rest.empty() || rest.front() != ' ') continue;
    do {
      rest.remove_prefix(rest.find_first_not_of(", "));
      const auto end = static_cast<size_t>(
          std::find_if_not(rest.begin(), rest.end(), absl::ascii_isdigit) -
          rest.begin());
      if (end == 0) break;
      if (rest.substr(0, end) == wanted) return true;
      rest.remove_prefix(end);
    } while (absl::StartsWith(rest, ", "));
  }
  return false;
}

absl::Status CheckNothingLeft(const std::vector<Fault>& faults,
                              const std::string& report) {
  for (const char* line : {"live works: 0\n", "live communicators: 0\n"}) {
    if (absl::StrContains(report, line)) continue;
    return absl::DataLossError(absl::StrCat("want ", line, "got:\n", report));
  }
  // The ones before it may keep a second one from being reached.
  if (faults.size() == 1 && absl::StrContains(report, "not reached")) {
    return absl::DataLossError(
        absl::StrCat("want the fault reached, got:\n", report));
  }
  return absl::OkStatus();
}

// How ranks are told of a fault.
struct Telling {
  absl::StatusCode code;
  // Each rank finds out by itself. Else those that the fault did not hit are
  // told kAborted, with the code of the rank that it hit in the text.
  bool by_itself = false;
  // A message that never came is known to be missing, but not always from whom.
  bool names_rank = true;
};

Telling TellingOf(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::kDieBefore:
    case Fault::Kind::kDieAfter:
    case Fault::Kind::kLate:
    case Fault::Kind::kDuplicate:
      break;
    case Fault::Kind::kLose:
      return {.code = absl::StatusCode::kDeadlineExceeded,
              .by_itself = true,
              .names_rank = false};
    case Fault::Kind::kShort:
    case Fault::Kind::kCorrupt:
      return {.code = absl::StatusCode::kDataLoss};
    case Fault::Kind::kMemory:
      return {.code = absl::StatusCode::kResourceExhausted};
    case Fault::Kind::kAbort:
      return {.code = absl::StatusCode::kAborted};
  }
  return {.code = absl::StatusCode::kDeadlineExceeded, .by_itself = true};
}

bool Tells(const Fault& fault, const absl::Status& result) {
  const Telling telling = TellingOf(fault.kind);
  const bool told_by_another =
      !telling.by_itself && absl::IsAborted(result) &&
      absl::StrContains(result.message(),
                        absl::StatusCodeToString(telling.code));
  if (result.code() != telling.code && !told_by_another) return false;
  return !telling.names_rank || NamesRank(result.message(), fault.rank);
}

// What all ranks agreed upon with the control vector of a step, which carries
// numbers alone: whose reduction failed. Empty: `text` says nothing of it.
absl::string_view Agreement(absl::string_view text) {
  if (!absl::StartsWith(text, "the step was not taken: the reduction of ")) {
    return "";
  }
  return text.substr(0, text.find("; here: "));
}

absl::Status CheckDead(const absl::Status& result, const Fault& death,
                       bool alone) {
  if (result.ok() && !alone) return absl::OkStatus();
  if (absl::IsAborted(result) && NamesRank(result.message(), death.rank)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "rank ", death.rank, ": want ABORTED that says that the rank died, got ",
      result.ToString()));
}

// The rank that all agreed upon is the one that can say why.
absl::Status CheckAgreedRankKnows(absl::string_view agreed,
                                  const std::vector<absl::Status>& results) {
  for (size_t r = 0; r < results.size(); ++r) {
    if (!absl::EndsWith(agreed, absl::StrCat(" on rank ", r))) continue;
    if (absl::StrContains(results[r].message(), "; here: ")) {
      return absl::OkStatus();
    }
    return absl::DataLossError(
        absl::StrCat("rank ", r, ": want why its reduction failed, got ",
                     results[r].ToString()));
  }
  return absl::DataLossError(
      absl::StrCat("want a rank of the world named, got \"", agreed, "\""));
}

// One cause for all ranks that failed: that of a fault, or what all agreed
// upon.
absl::Status CheckTold(const std::vector<Fault>& faults,
                       const std::vector<absl::Status>& results) {
  absl::string_view agreed;
  for (size_t r = 0; r < results.size(); ++r) {
    const absl::Status& result = results[r];
    const auto death =
        std::find_if(faults.begin(), faults.end(), [&](const Fault& fault) {
          return IsDeath(fault) && fault.rank == static_cast<int32_t>(r);
        });
    if (death != faults.end()) {
      absl::Status s = CheckDead(result, *death, faults.size() == 1);
      if (!s.ok()) return s;
      continue;
    }
    // A rank may have ended before somebody needed what is missing.
    if (result.ok()) continue;
    const absl::string_view agreement = Agreement(result.message());
    if (agreed.empty()) agreed = agreement;
    const bool told = agreement.empty()
                          ? std::any_of(faults.begin(), faults.end(),
                                        [&](const auto& fault) {
                                          return Tells(fault, result);
                                        })
                          : absl::IsAborted(result) && agreement == agreed;
    if (told) continue;
    return absl::DataLossError(absl::StrCat(
        "rank ", r, ": want the cause",
        agreed.empty() ? "" : absl::StrCat(", or \"", agreed, "\""), ", got ",
        result.ToString()));
  }
  if (agreed.empty()) return absl::OkStatus();
  return CheckAgreedRankKnows(agreed, results);
}

// The making of the world has a deadline of its own, that of the harness. After
// it, a rank may wait out one timeout for a gather of a skipped step, which
// tells it nothing, and another one in the next step. A wait lets the error of
// what it waits for come first.
absl::Duration LongestWait(const std::vector<Fault>& faults,
                           absl::Duration timeout) {
  absl::Duration longest = 2 * timeout * 9 / 8;
  for (const Fault& fault : faults) {
    if (fault.operation == 0) longest = std::max(longest, absl::Minutes(2));
  }
  for (const Fault& fault : faults) longest += absl::Nanoseconds(fault.late_ns);
  return longest;
}

}  // namespace

absl::Status CheckRecovered(const ShardedCase& sharded,
                            const std::vector<Fault>& faults,
                            const RecoveredRun& run,
                            const UnshardedRun& undisturbed) {
  const ShardedRun& disturbed = run.disturbed;
  if (!disturbed.ended.ok()) return disturbed.ended;
  absl::Status s = CheckNothingLeft(faults, disturbed.plugin_report);
  if (!s.ok()) return s;
  const absl::Duration timeout = sharded.options.timeout;
  const bool harmless = std::all_of(
      faults.begin(), faults.end(),
      [&](const Fault& fault) { return DoesNoHarm(fault, timeout); });
  for (size_t r = 0; r < disturbed.results.size() && harmless; ++r) {
    if (disturbed.results[r].ok()) continue;
    return absl::DataLossError(
        absl::StrCat("rank ", r,
                     ": want no error from faults that do no harm, "
                     "got ",
                     disturbed.results[r].ToString()));
  }
  if (s = CheckTold(faults, disturbed.results); !s.ok()) return s;
  const absl::Duration longest = LongestWait(faults, timeout);
  if (disturbed.simulated > longest) {
    return absl::DataLossError(absl::StrCat(
        "want an end within ", absl::FormatDuration(longest),
        ", got one after ", absl::FormatDuration(disturbed.simulated)));
  }
  if (s = CheckSameRun(sharded, run.whole, undisturbed); !s.ok()) return s;
  if (!run.continued || run.whole.simulated == absl::ZeroDuration()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "a wait of the continued run was ended by its deadline, after ",
      absl::FormatDuration(run.whole.simulated), ": want every wait woken"));
}

}  // namespace muonshard::testing
